"""`elmo neighbors`: the uses of words in an index that are most similar to a word in its sentence."""

from pathlib import Path
from typing import Optional

import srsly

from ..analysis.neighbors import to_printable
from ..analysis.shares import Group, make_groups
from ..corpora.texts import choose_lang, find_word, make_splitter
from . import _common
from ._app import Opt, app
from ._index import (
    BILM_OPT,
    BIN_WIDTH_OPT,
    GROUP_BY_OPT,
    INDEX_ARG,
    LAYER_OPT,
    check_group_by,
    open_bilm_of,
    open_index,
    to_line,
    to_record,
)


@app.command("neighbors")
def neighbors_cli(
    # fmt: off
    index_path: Path = INDEX_ARG,
    text: str = _common.TEXT_ARG,
    word: str = Opt(..., "--word", "-w", help="The word whose neighbors are searched."),
    occurrence: int = Opt(1, "--occurrence", "-n", help="Which occurrence of the word, from 1.", min=1),
    k: int = Opt(10, "--k", "-k", help="Number of neighbors.", min=1),
    same_word: bool = Opt(
        False, "--same-word/--any-word", "-s/-a", help="Only uses of the same word, or uses of any word."
    ),
    group_by: Optional[str] = GROUP_BY_OPT,
    bin_width: Optional[float] = BIN_WIDTH_OPT,
    layer: Optional[str] = LAYER_OPT,
    bilm_path: Optional[str] = BILM_OPT,
    lang: Optional[str] = _common.TEXT_LANG_OPT,
    gpu_id: int = _common.GPU_OPT,
    as_json: bool = _common.JSON_OPT,
    # fmt: on
) -> None:
    """Show the uses of words in an index that are most similar to a word in its sentence, with their cosines."""
    with _common.show_errors(), open_index(index_path, layer) as index:
        check_group_by(group_by, bin_width=bin_width)
        bilm = open_bilm_of(index, bilm_path, gpu_id)
        nlp = make_splitter(choose_lang(lang, index.lang, bilm.meta.get("lang")))
        words, position = find_word(nlp, _common.read_text(text), _common.to_unicode(word), occurrence)
        if same_word:
            index.require(words[position])
        vector, only = index.embed(bilm, words, position), words[position] if same_word else None
        stored_layer, groups = index.layer, [Group("", 0.0, None, None, [])]
        if group_by is not None:
            groups = make_groups(index.store.read_values(index.require_field(group_by)), group_by, bin_width)
        conditions = [None if group_by is None else (group_by, group.values) for group in groups]
        neighbors = [index.query(vector, k, word=only, where=where) for where in conditions]
    if as_json:
        names = [{} if group_by is None else {"value": group.label} for group in groups]
        records = [
            to_record(use, cosine=cosine, **name)
            for name, group_neighbors in zip(names, neighbors)
            for use, cosine in group_neighbors
        ]
        print(srsly.json_dumps({"sentence": words, "position": position, "layer": stored_layer, "neighbors": records}))
        return
    if not any(neighbors):
        _common.msg.warn("The index has no tokens.")
        return
    header = ("cosine", "", "word", "", "document")
    for group, group_neighbors in zip(groups, neighbors):
        if group_by is not None:
            _common.msg.divider(to_printable(f"{group_by} {group.label}"))
        if group_neighbors:
            rows = [(f"{cosine:.3f}", *to_line(use), to_printable(use.document)) for use, cosine in group_neighbors]
            _common.msg.table(rows, header=header, divider=True, aligns=tuple("rrlll"), max_col=80)
        else:
            _common.msg.text("no use")
