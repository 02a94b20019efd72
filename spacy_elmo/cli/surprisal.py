"""`elmo surprisal`: how unexpected each token of a text is to a biLM."""

import math
from pathlib import Path
from typing import List, Optional, Tuple

import srsly
from spacy.tokens import Doc

from ..analysis.pages import render_surprisal
from ..analysis.plots import draw_surprisal
from ..corpora.texts import choose_lang, make_splitter, tokenize
from ..files import write_text
from ..pipeline.surprisal import ElmoSurprisal, Surprisal
from ..util import finite_or_none
from ..weights.load import list_sources
from . import _common
from ._app import Opt, app


@app.command("surprisal")
def surprisal_cli(
    # fmt: off
    bilm_path: str = _common.BILM_ARG,
    text: str = _common.TEXT_ARG,
    lang: Optional[str] = _common.TEXT_LANG_OPT,
    html: Optional[Path] = Opt(None, "--html", "-H", help="Write a page with highlighted text into this file."),
    picture: Optional[Path] = Opt(
        None, "--picture", "-p", help="Draw the surprisal of each word into this file: .png, .svg or .pdf."
    ),
    title: Optional[str] = _common.TITLE_OPT,
    size: Optional[str] = _common.SIZE_OPT,
    dpi: Optional[int] = _common.DPI_OPT,
    label: List[str] = _common.LABEL_OPT,
    as_json: bool = _common.JSON_OPT,
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Show how unexpected each token of a text is to a biLM, in bits.

    Surprisal is -log2 of the probability of a word given the words before it (forward) or after it (backward) in its
    sentence. The biLM needs its softmax and its vocabulary. Words outside the vocabulary are marked: their numbers
    belong to <UNK>.
    """
    with _common.show_errors():
        _common.check_output_files(html=html, picture=picture, force=force, sources=[text, *list_sources(bilm_path)])
        look = _common.make_look(picture, title, size, dpi, label)
        content = _common.read_text(text)
        component = ElmoSurprisal(weights=bilm_path)
        nlp = make_splitter(choose_lang(lang, component.bilm.meta.get("lang")))
        doc = component(nlp(tokenize(content, nlp)))
        rows = [(token.text, token._.elmo_surprisal) for token in doc if not token.is_space]
        default_title = f"Surprisal by {component.bilm.meta.get('name') or Path(bilm_path).name}"
        if html is not None:
            tokens = [(token.text, token.whitespace_, token._.elmo_surprisal) for token in doc]
            write_text(
                html, render_surprisal(tokens, title=default_title if title is None else title), errors="replace"
            )
        if picture is not None:
            draw_surprisal(rows, picture, title=default_title, look=look, starts=_find_starts(doc))
    if as_json:
        values = [{name: finite_or_none(value) for name, value in surprisal._asdict().items()} for _, surprisal in rows]
        print(srsly.json_dumps({"tokens": [{"token": text, **record} for (text, _), record in zip(rows, values)]}))
    else:
        header = ("token", "forward", "backward", "mean", "note")
        n_columns = len(header) if any(surprisal.is_unk for _, surprisal in rows) else len(header) - 1
        table = [row[:n_columns] for row in _rows(rows)]
        _common.msg.table(table, header=header[:n_columns], divider=True, aligns=tuple("lrrrl")[:n_columns])
    _common.print_written(html, picture)


def _find_starts(doc: Doc) -> List[int]:
    """RETURNS (List[int]): The numbers of the tokens that begin a sentence, white space not counted."""
    sentences = [number for number, sent in enumerate(doc.sents) for token in sent if not token.is_space]
    return [i for i in range(1, len(sentences)) if sentences[i] != sentences[i - 1]]


def _rows(rows: List[Tuple[str, Surprisal]]) -> List[Tuple[str, ...]]:
    return [
        (text, *(_format(bits) for bits in surprisal[:3]), "<UNK>" if surprisal.is_unk else "")
        for text, surprisal in rows
    ]


def _format(bits: float) -> str:
    return "" if math.isnan(bits) else f"{bits:.1f}"
