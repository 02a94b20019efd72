"""`elmo substitutes`: the words that a biLM expects in the place of a word."""

import math
from typing import List, Optional, Tuple

import srsly
from spacy.language import Language
from spacy.tokens import Span

from ..corpora.texts import choose_lang, make_splitter
from ..errors import Errors
from ..inference.substitutes import Substitute, find_substitutes
from . import _common
from ._app import Opt, app
from ._text import LANG_OPT, TEXT_ARG, read_text, to_unicode


@app.command("substitutes")
def substitutes_cli(
    # fmt: off
    bilm_path: str = _common.BILM_ARG,
    text: str = TEXT_ARG,
    word: str = Opt(..., "--word", "-w", help="The word to replace."),
    occurrence: int = Opt(1, "--occurrence", "-n", help="Which occurrence of the word, from 1.", min=1),
    k: int = Opt(10, "--k", "-k", help="Number of words to show.", min=1),
    lang: Optional[str] = LANG_OPT,
    as_json: bool = _common.JSON_OPT,
    # fmt: on
) -> None:
    """Show the words that a biLM expects in the place of a word, given the rest of its sentence.

    The biLM needs its softmax and its vocabulary. Only words of the vocabulary are shown.
    """
    with _common.show_errors():
        bilm = _common.open_bilm(bilm_path)
        nlp = make_splitter(choose_lang(lang, bilm.meta.get("lang")))
        sentence, position = find_word(nlp, read_text(text), word, occurrence)
        found = find_substitutes(bilm, sentence, position, k=k)
    if as_json:
        records = [{key: _number(value) for key, value in one._asdict().items()} for one in found]
        print(srsly.json_dumps({"sentence": sentence, "position": position, "substitutes": records}))
        return
    header = ("word", "probability", "forward", "backward")
    _common.msg.table([_row(one) for one in found], header=header, divider=True, aligns=tuple("lrrr"))


def find_word(
    nlp: Language, text: str, word: str, occurrence: int = 1, name: str = "The text"
) -> Tuple[List[str], int]:
    """nlp (Language): See `make_splitter`.
    text (str): Raw text.
    word (str): A token of it.
    occurrence (int): Which of the equal tokens, from 1.
    name (str): Of the text, for the error.
    RETURNS (Tuple[List[str], int]): The words of its sentence, and its position among them.
    RAISES (ValueError): EL381 if the word does not occur so often.
    """
    doc, word = nlp(text), to_unicode(word)
    places = [token for token in doc if token.text == word]
    if len(places) < occurrence:
        tokens = ", ".join(token.text for token in doc if not token.is_space)
        found = _common.counted(len(places), "occurrence")
        raise ValueError(Errors.EL381.format(text=name, word=word, found=found, wanted=occurrence, tokens=tokens[:200]))
    token = places[occurrence - 1]
    sentence: Span = token.sent
    words = [other for other in sentence if not other.is_space]
    return [other.text for other in words], words.index(token)


def _row(one: Substitute) -> Tuple[str, ...]:
    return one.word, *("" if math.isnan(value) else f"{value:.2%}" for value in one[1:])


def _number(value: object) -> Optional[object]:
    return None if isinstance(value, float) and math.isnan(value) else value
