"""`elmo senses`: groups of the uses of a word."""

from pathlib import Path
from typing import List, Optional

import srsly

from ..analysis.neighbors import to_printable
from ..analysis.plots import check_picture
from ..analysis.sense_map import cluster_uses, describe, draw_senses, render_senses
from ..util import write_text
from . import _common
from ._app import Arg, Opt, app
from ._index import INDEX_ARG, open_index, to_line, to_record

MAX_USES = 500


@app.command("senses")
def senses_cli(
    # fmt: off
    index_path: Path = INDEX_ARG,
    word: str = Arg(..., help="The word; upper and lower case are the same, unless --match-case says otherwise."),
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
        help="Number of uses that are grouped; of more a sample is drawn with a fixed seed, and the output says so.",
        min=3,
    ),
    picture: Optional[Path] = Opt(None, "--picture", "-p", help="Draw the map into this file, .png or .svg."),
    html: Optional[Path] = Opt(None, "--html", "-H", help="Write an interactive page into this file."),
    seed: int = Opt(0, "--seed", help="Seed of the groups and of the map."),
    as_json: bool = _common.JSON_OPT,
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Group the uses of a word in an index by their vectors, with the most typical use of each group."""
    with _common.show_errors():
        _common.check_output_files(picture=picture, html=html, force=force)
        if picture is not None:
            check_picture(picture)
        with open_index(index_path) as index:
            index.require(word, match_case=match_case)
            uses, vectors = index.uses(word, max_uses, match_case=match_case)
            n_uses = index.count_uses(word, match_case=match_case)
        found = cluster_uses(uses, vectors, n_senses, seed)
        if picture is not None:
            draw_senses(uses, found, picture, n_uses=n_uses)
        if html is not None:
            write_text(html, render_senses(uses, found, n_uses=n_uses), errors="replace")
    if as_json:
        groups = [
            {"size": size, "exemplar": to_record(uses[exemplar])}
            for size, exemplar in zip(found.sizes, found.exemplars)
        ]
        silhouette = None if len(groups) == 1 else found.silhouette
        labelled = [to_record(use, group=int(label)) for use, label in zip(uses, found.labels)]
        sizes = {"n_uses": n_uses, "n_sampled": len(uses)}
        print(srsly.json_dumps({**sizes, "silhouette": silhouette, "groups": groups, "uses": labelled}))
    else:
        _common.msg.text(to_printable(describe(uses, found, n_uses=n_uses)))
        rows: List[List[str]] = [
            [str(size), *to_line(uses[place])] for size, place in zip(found.sizes, found.exemplars)
        ]
        _common.msg.table(rows, header=("uses", "", "most typical", ""), divider=True, aligns=tuple("rrll"), max_col=80)
    for path in (picture, html):
        if path is not None:
            _common.msg.good(f"Wrote {path}")
