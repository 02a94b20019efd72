"""What a run was started with, to recognise it when it is resumed."""

import hashlib
from typing import Any, Dict, List, Mapping

from ..bilm.config import BiLMConfig
from ..text.vocabulary import Vocabulary
from .config import PretrainConfig

# Settings that a resumed run may have otherwise than the run that stopped. A lower rate is the cure of a diverged one.
FREE = (
    *("max_tokens", "eval_every", "patience", "checkpoint_every", "keep_checkpoints", "report_every"),
    *("optimizer.learn_rate", "optimizer.grad_clip"),
)
LONGEST = 100  # characters of a value in a message


def describe_settings(config: PretrainConfig, bilm: BiLMConfig, vocabulary: Vocabulary) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Plain JSON types, for a checkpoint."""
    return {"settings": config.to_dict(), "bilm": bilm.to_dict(), "vocabulary": fingerprint(vocabulary)}


def changed_settings(then: Mapping[str, Any], now: Mapping[str, Any]) -> List[str]:
    """then (Mapping[str, Any]), now (Mapping[str, Any]): From `describe_settings`, `then` with anything else beside it.
    RETURNS (List[str]): A statement for each setting that must not differ, and does.
    """
    found, given = ({**_flat(record["settings"]), **_flat(_others(record))} for record in (then, now))
    return [_describe(name, found.get(name), given.get(name)) for name in _differing(found, given) if name not in FREE]


def fingerprint(vocabulary: Vocabulary) -> str:
    """RETURNS (str): sha256 of the words in their order."""
    return hashlib.sha256("\n".join(vocabulary.words).encode("utf8", "surrogatepass")).hexdigest()


def _others(record: Mapping[str, Any]) -> Dict[str, Any]:
    return {"bilm": record["bilm"], "vocabulary": record["vocabulary"]}


def _flat(record: Mapping[str, Any], prefix: str = "") -> Dict[str, Any]:
    """Blocks become dotted names, as on the command line."""
    found: Dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            found.update(_flat(value, f"{prefix}{name}."))
        else:
            found[prefix + name] = value
    return found


def _differing(then: Mapping[str, Any], now: Mapping[str, Any]) -> List[str]:
    return [name for name in {**then, **now} if then.get(name) != now.get(name)]


def _describe(name: str, then: Any, now: Any) -> str:
    return f"{name}: {_short(then)} then, {_short(now)} now"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
