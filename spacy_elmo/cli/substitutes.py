"""`elmo substitutes`: the words that a biLM expects in the place of a word."""

import math
from typing import List, Optional, Tuple

import srsly
from spacy.tokens import Span

from ..corpora.sentences import make_nlp
from ..encoding.substitutes import Substitute, find_substitutes
from ..errors import Errors
from . import _common
from ._app import Opt, app
from ._text import TEXT_ARG, read_text


@app.command("substitutes")
def substitutes_cli(
    # fmt: off
    bilm_path: str = _common.BILM_ARG,
    text: str = TEXT_ARG,
    word: str = Opt(..., "--word", "-w", help="The word to replace."),
    occurrence: int = Opt(1, "--occurrence", "-n", help="Which occurrence of the word, from 1.", min=1),
    k: int = Opt(10, "--k", "-k", help="Number of words to show.", min=1),
    lang: str = Opt("en", "--lang", "-l", help="Language of spaCy's tokenizer and sentence splitter."),
    as_json: bool = _common.JSON_OPT,
    # fmt: on
) -> None:
    """Show the words that a biLM expects in the place of a word, given the rest of its sentence.

    The biLM needs its softmax and its vocabulary. Only words of the vocabulary are shown.
    """
    with _common.show_errors():
        bilm = _common.open_bilm(bilm_path)
        sentence, position = find_word(read_text(text), word, occurrence, lang)
        found = find_substitutes(bilm, sentence, position, k=k)
    if as_json:
        records = [{key: _number(value) for key, value in one._asdict().items()} for one in found]
        print(srsly.json_dumps({"sentence": sentence, "position": position, "substitutes": records}))
        return
    header = ("word", "probability", "forward", "backward")
    _common.msg.table([_row(one) for one in found], header=header, divider=True, aligns=tuple("lrrr"))


def find_word(text: str, word: str, occurrence: int, lang: str) -> Tuple[List[str], int]:
    """text (str): Raw text.
    word (str): A token of it.
    occurrence (int): Which of the equal tokens, from 1.
    lang (str): Language of the tokenizer.
    RETURNS (Tuple[List[str], int]): The words of its sentence, and its position among them.
    RAISES (ValueError): EL137 for an unknown language, EL381 if the word does not occur so often.
    """
    nlp = make_nlp(lang, instead="choose en")
    nlp.add_pipe("sentencizer")
    doc = nlp(text)
    places = [token for token in doc if token.text == word]
    if len(places) < occurrence:
        tokens = ", ".join(token.text for token in doc if not token.is_space)
        found = _common.counted(len(places), "occurrence")
        raise ValueError(Errors.EL381.format(word=word, found=found, wanted=occurrence, tokens=tokens[:200]))
    token = places[occurrence - 1]
    sentence: Span = token.sent
    words = [other for other in sentence if not other.is_space]
    return [other.text for other in words], words.index(token)


def _row(one: Substitute) -> Tuple[str, ...]:
    return one.word, *("" if math.isnan(value) else f"{value:.2%}" for value in one[1:])


def _number(value: object) -> Optional[object]:
    return None if isinstance(value, float) and math.isnan(value) else value
