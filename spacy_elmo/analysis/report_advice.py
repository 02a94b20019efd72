"""What to say where ELMo is not significantly above the baseline, and what to try there: from the trained config."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, List, Optional, Sequence, Set, Tuple

from spacy.language import Language

from ..pipeline.gamma_choice import CHOOSE_GAMMA, STARTER_GAMMA
from ..pipeline.replaced_listener import LISTENER_ARCHITECTURE
from ..pipeline.starter_config import N_GRAMS, ConfigBlock
from .answers import find_kinds

# Networks in which a listener stands beside word features.
WITH_WORDS = ("spacy-elmo.Tok2VecWithElmo.v1", "spacy-elmo.ElmoTaskEncoder.v1")
KEYWORD_GAMMA, STYLE_GAMMA = 0.02, 0.2  # values of initial_gamma, see `TextCatNgrams`


@dataclass(frozen=True)
class Difference:
    """What ELMo changes in a score.

    name (str): The score, for people.
    kind (Optional[str]): The kind of answers, see `find_kinds`; None if it is not known.
    value (float): With ELMo minus without, from -1 to 1.
    low (Optional[float]), high (Optional[float]): Its 95 % interval; None if it is not known.
    is_learned (bool): Whether any score is above 0.
    """

    name: str
    kind: Optional[str]
    value: float
    low: Optional[float]
    high: Optional[float]
    is_learned: bool = True

    @property
    def is_below(self) -> bool:
        """RETURNS (bool): Significantly, if there is an interval."""
        return round(self.value, 4) < 0 if self.high is None else self.high < 0

    @property
    def is_open(self) -> bool:
        """RETURNS (bool): Not significant; without an interval, no difference in what is shown."""
        return round(self.value, 4) == 0 if self.low is None or self.high is None else self.low <= 0 <= self.high


def find_advice(differences: Sequence[Difference], nlp: Language, code: Optional[Path] = None) -> Iterator[str]:
    """differences (Sequence[Difference]): From the baseline, the same training without ELMo.
    nlp (Language): The trained pipeline with ELMo.
    code (Optional[Path]): Python file that it needs.
    RETURNS (Iterator[str]): A sentence on the scores that ELMo does not raise, then one on each thing to try.
    """
    below = [difference for difference in differences if difference.is_below]
    within = [difference for difference in differences if difference.is_open]
    if below:
        unknown = "" if below[0].high is not None else " With one seed its significance is not known."
        yield f"ELMo is below the baseline: {_list_points(below)}.{unknown}"
    if within:
        yield f"ELMo is not significantly above or below the baseline: {_list_points(within)}."
    if below or within:
        kinds = {difference.kind for difference in (*below, *within) if difference.kind is not None}
        yield from (f"Try: {text}" for text in _find_remedies(nlp, kinds, code))
    if below:
        yield "If it stays below, take the baseline for these components: it is faster."


def format_points(value: float) -> str:
    """RETURNS (str): Points of a percentage, with their sign: "+18.27"; 0 is never negative."""
    return f"{round(value * 100, 2) + 0.0:+.2f}".replace("-", "\u2212")


def _list_points(differences: Sequence[Difference]) -> str:
    return ", ".join(f"{item.name} {format_points(item.value)}" for item in differences) + " points"


def _find_remedies(nlp: Language, kinds: Set[str], code: Optional[Path]) -> Iterator[str]:
    """kinds (Set[str]): The kinds of answers that are not better; empty for all."""
    config, assigned = nlp.config.interpolate(), find_kinds(nlp)
    frozen = config["training"]["frozen_components"]
    blocks = {name: config["components"].get(name, {}) for name in nlp.pipe_names if name not in frozen}
    readers = [name for name, block in blocks.items() if _find_listeners(block)]
    readers = [name for name in readers if not kinds or assigned[name] & kinds] or readers
    alone = [name for name in readers if any(_is_alone(parents) for parents, _ in _find_listeners(blocks[name]))]
    if alone:
        base = config["paths"].get("base") if frozen else None
        components = dict.fromkeys(alone if base else (blocks[name]["factory"] for name in alone))
        yield (
            f"word features beside ELMo, which {', '.join(alone)} {'reads' if len(alone) == 1 else 'read'} alone: "
            f"`python -m spacy elmo init-config accuracy.cfg --component {shlex.quote(','.join(components))} "
            f"--optimize accuracy {_init_config_options(config, base, code)}--baseline`, then train both configs. This "
            "helps most with a biLM of little text or of another kind of text."
        )
    weighed = []
    chooses = (config["initialize"].get("after_init") or {}).get("@callbacks") == CHOOSE_GAMMA
    for name in readers:
        for parents, listener in _find_listeners(blocks[name]):
            if N_GRAMS in parents:
                weighed.append(name)
            gamma = float(listener.get("initial_gamma", 1.0))
            if N_GRAMS in parents and not (chooses and gamma != STARTER_GAMMA):
                setting = f"--components.{name}.model.tok2vec.initial_gamma"
                yield (
                    f"another weight of ELMo beside the n-grams of {name} than {gamma:g}: train with {setting} "
                    f"{KEYWORD_GAMMA} for categories that keywords show, {STYLE_GAMMA} for wording and "
                    f"style{', and --initialize.after_init null' if chooses else ''}."
                )
    elmo = [block for block in blocks.values() if block.get("factory") == "elmo"]
    if any(block.get("model", {}).get("frozen", True) for block in elmo) and set(readers) - set(weighed):
        yield "fine-tuning: `init-config --fine-tune` trains the biLM too; the pipeline is as fast afterwards."
    if readers:
        yield (
            "a biLM of your kind of text: `init-adaptation` writes a config that continues its training on your text "
            "without labels. The gain was small where it was measured: 0.4 points of F on NCBI-disease, none on "
            "GoEmotions."
        )


def _find_listeners(block: ConfigBlock, parents: Sequence[str] = ()) -> List[Tuple[Sequence[str], ConfigBlock]]:
    """RETURNS (List[Tuple[Sequence[str], ConfigBlock]]): The listeners inside a block, with the architectures around
    them.
    """
    name = block.get("@architectures", "")
    if name == LISTENER_ARCHITECTURE:
        return [(parents, block)]
    inner = [value for value in block.values() if isinstance(value, dict)]
    return [listener for value in inner for listener in _find_listeners(value, (*parents, name))]


def _is_alone(parents: Sequence[str]) -> bool:
    return not {*WITH_WORDS, N_GRAMS} & set(parents)


def _init_config_options(config: Any, base: Optional[str], code: Optional[Path]) -> str:
    """RETURNS (str): The options of `init-config` for the language and the biLM of a config, for the pipeline that its
    frozen components are from, and for its code.
    """
    values = {"lang": config["nlp"]["lang"], "bilm": config["paths"].get("bilm"), "from": base, "code": code}
    return "".join(f"--{name} {shlex.quote(str(value))} " for name, value in values.items() if value)
