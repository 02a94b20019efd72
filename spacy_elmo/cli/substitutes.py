"""`elmo substitutes`: the words that a biLM expects in the place of a word."""

import math
from typing import Optional

import srsly

from ..corpora.texts import choose_lang, find_word, make_splitter
from ..inference.substitutes import find_substitutes
from ..util import finite_or_none
from . import _common
from ._app import Opt, app


@app.command("substitutes")
def substitutes_cli(
    # fmt: off
    bilm_path: str = _common.BILM_ARG,
    text: str = _common.TEXT_ARG,
    word: str = Opt(..., "--word", "-w", help="The word to replace."),
    occurrence: int = Opt(1, "--occurrence", "-n", help="Which occurrence of the word, from 1.", min=1),
    k: int = Opt(10, "--k", "-k", help="Number of words to show.", min=1),
    lang: Optional[str] = _common.TEXT_LANG_OPT,
    as_json: bool = _common.JSON_OPT,
    # fmt: on
) -> None:
    """Show the words that a biLM expects in the place of a word, given the rest of its sentence.

    The biLM needs its softmax and its vocabulary. Only words of the vocabulary are shown.
    """
    with _common.show_errors():
        bilm = _common.open_bilm(bilm_path)
        nlp = make_splitter(choose_lang(lang, bilm.meta.get("lang")))
        sentence, position = find_word(nlp, _common.read_text(text), _common.to_unicode(word), occurrence)
        substitutes = find_substitutes(bilm, sentence, position, k=k)
    if as_json:
        records = [
            {name: finite_or_none(value) for name, value in substitute._asdict().items()} for substitute in substitutes
        ]
        print(srsly.json_dumps({"sentence": sentence, "position": position, "substitutes": records}))
        return
    rows = [
        (word, *("" if math.isnan(probability) else f"{probability:.2%}" for probability in probabilities))
        for word, *probabilities in substitutes
    ]
    header = ("word", "probability", "forward", "backward")
    _common.msg.table(rows, header=header, divider=True, aligns=tuple("lrrr"))
