"""`elmo same-sense`: whether a word has the same sense in two sentences."""

from typing import Optional

import srsly

from ..analysis.same_sense import CALIBRATIONS, SameSense, compare_uses
from ..corpora.sentences import choose_lang, make_splitter
from ..weights.identity import digest_bilm
from . import _common
from ._app import Arg, Opt, app
from ._text import LANG_OPT, read_text
from .substitutes import find_word


@app.command("same-sense")
def same_sense_cli(
    # fmt: off
    first: str = Arg(..., help="A sentence, in quotation marks."),
    second: str = Arg(..., help="Another sentence."),
    word: str = Opt(..., "--word", "-w", help="The word in both sentences."),
    second_word: Optional[str] = Opt(
        None, "--second-word", "-W", help="The word in the second sentence, if it has another form."
    ),
    bilm_path: str = Opt(
        "en_elmo_sm", "--bilm", "-b", help="Folder, file or zip with biLM weights, or the name of a packaged biLM."
    ),
    lang: Optional[str] = LANG_OPT,
    gpu_id: int = _common.GPU_OPT,
    as_json: bool = _common.JSON_OPT,
    # fmt: on
) -> None:
    """Say whether a word has the same sense in two sentences: the cosine of its vectors, layer by layer.

    For the packaged biLM also the probability of the same sense, if both answers are equally frequent. On pairs from
    SemCor this is right in 57 % of the cases, where guessing is right in 50 %.
    """
    with _common.show_errors():
        texts = [read_text(first), read_text(second)]
        bilm = _common.open_bilm(bilm_path, gpu_id=gpu_id)
        nlp = make_splitter(choose_lang(lang, bilm.meta.get("lang")))
        names = ("The first sentence", "The second sentence")
        words = (word, second_word or word)
        places = [find_word(nlp, text, one, name=name) for text, one, name in zip(texts, words, names)]
        calibration = CALIBRATIONS.get(digest_bilm(bilm_path))
        found = compare_uses(bilm, *places[0], *places[1], calibration=calibration)
    if as_json:
        record = {"cosines": found.cosines, "probability": found.probability, "is_same": found.is_same}
        print(srsly.json_dumps(record))
        return
    rows = [(name, f"{cosine:.3f}") for name, cosine in found.cosines.items()]
    _common.msg.table(rows, header=("layer", "cosine"), divider=True, aligns=("l", "r"))
    _common.msg.text(_describe(found))


def _describe(found: SameSense) -> str:
    if found.probability is None:
        return "No probability: there is no calibration for this biLM."
    return f"Probability of the same sense: {found.probability:.0%}"
