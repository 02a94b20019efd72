"""`elmo senses`: groups of the uses of a word."""

from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

import srsly

from ..analysis.neighbors import to_printable
from ..analysis.pages import make_table, to_html
from ..analysis.sense_map import CAUTION, cluster_uses, describe_senses, draw_senses, render_senses, shorten_use
from ..analysis.shares import Shares, count_shares, draw_shares, write_table
from ..analysis.token_store import DOCUMENT
from ..files import write_text
from ..util import batched
from . import _common
from ._app import Arg, Opt, app
from ._index import BIN_WIDTH_OPT, GROUP_BY_OPT, INDEX_ARG, check_group_by, open_index, to_line, to_record

MAX_USES = 500


@app.command("senses")
def senses_cli(
    # fmt: off
    index_path: Path = INDEX_ARG,
    words: List[str] = Arg(
        ...,
        metavar="WORD...",
        help="The word, or several forms of it, which are grouped together: mouse mice. Upper and lower case are the same, unless --match-case is given.",
    ),
    n_senses: Optional[int] = Opt(
        None,
        "--n-senses",
        "-n",
        help="Number of groups, 1 to 7; by default the number with the highest silhouette.",
        min=1,
    ),
    match_case: bool = Opt(
        False, "--match-case", "-c", help="Only uses that are written as the word is, upper and lower case included."
    ),
    max_uses: int = Opt(
        MAX_USES,
        "--max-uses",
        "-m",
        help="Maximum number of uses to group. A larger number is sampled with a fixed seed, as the output notes.",
        min=3,
    ),
    group_by: Optional[str] = GROUP_BY_OPT,
    bin_width: Optional[float] = BIN_WIDTH_OPT,
    table: Optional[Path] = Opt(None, "--table", "-t", help="Write the shares of --group-by into this CSV file."),
    picture: Optional[Path] = Opt(
        None,
        "--picture",
        "-p",
        help="Draw the map, or with --group-by the shares, into this file: .png, .svg or .pdf.",
    ),
    html: Optional[Path] = Opt(None, "--html", "-H", help="Write an interactive page into this file."),
    title: Optional[str] = _common.TITLE_OPT,
    size: Optional[str] = _common.SIZE_OPT,
    dpi: Optional[int] = _common.DPI_OPT,
    label: List[str] = _common.LABEL_OPT,
    seed: int = Opt(0, "--seed", help="Seed of the groups and of the map."),
    as_json: bool = _common.JSON_OPT,
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Group the uses of a word in an index by their vectors, with the most typical use of each group.

    --group-by compares the shares of the groups between years, authors or documents, with 95 % intervals.
    """
    with _common.show_errors():
        check_group_by(group_by, bin_width=bin_width, table=table)
        _common.check_output_files(picture=picture, html=html, table=table, force=force, sources=[index_path])
        look = _common.make_look(picture, title, size, dpi, label)
        with open_index(index_path) as index:
            for word in words:
                index.require(word, match_case=match_case)
            uses, vectors = index.uses(words, max_uses, match_case=match_case)
            n_uses = index.count_uses(words, match_case=match_case)
            values = [] if group_by is None else index.values_of(uses, group_by)
        sense_map = cluster_uses(uses, vectors, n_senses, seed)
        finding, shares = describe_senses(uses, sense_map, n_uses=n_uses), None
        if group_by is not None:
            shares = count_shares(uses, sense_map.labels.tolist(), values, group_by, bin_width)
        if picture is not None and shares is not None:
            captions = [shorten_use(uses[exemplar]) for exemplar in sense_map.exemplars]
            draw_shares(shares, picture, title=f"{finding}, by {group_by}", captions=captions, look=look)
        elif picture is not None:
            draw_senses(uses, sense_map, picture, n_uses=n_uses, look=look)
        if html is not None:
            below = "" if shares is None else make_table(*_cells(shares, to_html))
            page = render_senses(uses, sense_map, n_uses=n_uses, title=title or "", table=below)
            write_text(html, page, errors="replace")
        if table is not None and shares is not None:
            write_text(table, write_table(shares), errors="replace")
    if as_json:
        groups = [
            {"size": size, "exemplar": to_record(uses[exemplar])}
            for size, exemplar in zip(sense_map.sizes, sense_map.exemplars)
        ]
        silhouette = None if len(groups) == 1 else sense_map.silhouette
        labelled = [to_record(use, group=int(label)) for use, label in zip(uses, sense_map.labels)]
        for record, value in zip(labelled, values):
            record["value"] = value
        sizes = {"n_uses": n_uses, "n_sampled": len(uses)}
        record = {**sizes, "silhouette": silhouette, "groups": groups, "uses": labelled}
        if shares is not None:  # groups are numbered from 0 in JSON
            record["shares"] = [{**row, "group": row["group"] - 1} for row in shares.rows]
            record["design_effect"], record["n_without"] = shares.effect, shares.n_without
        print(srsly.json_dumps(record))
    else:
        _common.msg.text(to_printable(finding))
        rows: List[List[str]] = [
            [str(size), *to_line(uses[place])] for size, place in zip(sense_map.sizes, sense_map.exemplars)
        ]
        _common.msg.table(rows, header=("uses", "", "most typical", ""), divider=True, aligns=tuple("rrll"), max_col=80)
        if len(rows) > 1:
            _common.msg.info(CAUTION if html is not None else f"{CAUTION} --html lists them.")
        if shares is not None:
            header, cells = _cells(shares, to_printable)
            _common.msg.table(cells, header=header, divider=True, aligns=("l", *"r" * (len(header) - 1)), max_col=40)
    if shares is not None:
        _print_notes(shares)
    _common.print_written(picture, html, table)


def _cells(shares: Shares, clean: Callable[[str], str]) -> Tuple[List[str], List[List[str]]]:
    """RETURNS (Tuple[List[str], List[List[str]]]): Header and rows: shares in percent with their intervals."""
    n = shares.n_senses
    header = [clean(shares.field), "uses", "documents", *(f"group {i + 1} (%)" for i in range(n))]
    return header, [
        [clean(rows[0]["value"]), f"{rows[0]['uses']:,}", f"{rows[0]['documents']:,}", *map(_interval, rows)]
        for rows in batched(shares.rows, n)
    ]


def _interval(row: Dict[str, Any]) -> str:
    return f"{100 * row['share']:.0f} ({100 * row['low']:.0f} to {100 * row['high']:.0f})"


def _print_notes(shares: Shares) -> None:
    alike = "count as independent" if shares.effect < 1.05 else f"are alike: {shares.effect:.1f} count as one"
    _common.msg.info(f"95 % intervals; the uses of a document {alike} (design effect {shares.effect:.1f})")
    if shares.field != DOCUMENT and all(row["documents"] == 1 for row in shares.rows):
        _common.msg.warn(
            "Each group has the uses of one document, so that the intervals do not hold for other documents. Join "
            "groups with --bin-width, or read more documents."
        )
    if shares.n_without:
        uses = _common.counted(shares.n_without, "use")
        _common.msg.warn(
            f"{uses} in documents without the field '{to_printable(shares.field)}' are left out of the shares"
        )
