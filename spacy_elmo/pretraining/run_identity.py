"""Settings and text of a run, stored in checkpoints and compared when it is resumed."""

import hashlib
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

from ..bilm.config import BiLMConfig
from ..corpora.shards import Shard
from ..text.vocabulary import Vocabulary
from .config import PretrainConfig
from .validation import Sentences

# Settings that may change when a run is resumed. A diverged run is resumed with a lower rate.
FREE = (
    *("max_tokens", "max_passes", "eval_every", "patience", "checkpoint_every", "keep_checkpoints", "report_every"),
    *("optimizer.learn_rate", "optimizer.grad_clip"),
)
LONGEST = 100  # characters of a value in an error message
MISSING = "missing"


def describe_settings(config: PretrainConfig, bilm: BiLMConfig, vocabulary: Vocabulary) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Plain JSON types, for a checkpoint."""
    return {"settings": config.to_dict(), "bilm": bilm.to_dict(), "vocabulary": fingerprint(vocabulary)}


def changed_settings(then: Mapping[str, Any], now: Mapping[str, Any]) -> List[str]:
    """then (Mapping[str, Any]), now (Mapping[str, Any]): From `describe_settings`; other keys of `then` are ignored.
    RETURNS (List[str]): A description of each setting that differs but must not.
    """
    newer = {"bilm": BiLMConfig(n_words=1).to_dict()}  # settings that are newer than the run have their default
    defaults = {**_flat(PretrainConfig().to_dict()), **_flat(newer)}
    found, given = ({**defaults, **_flat(record["settings"]), **_flat(_others(record))} for record in (then, now))
    return [_describe(name, found.get(name), given.get(name)) for name in _differing(found, given) if name not in FREE]


def describe_text(shards: Sequence[Shard], held_out: Sentences, settings: Mapping[str, Any]) -> Dict[str, Any]:
    """Describe the text. Files are identified by name and size, since reading all of them would take too long.

    shards (Sequence[Shard]): The training text.
    held_out (Sentences): Held-out text.
    settings (Mapping[str, Any]): Settings of reading the text, plain JSON types.
    RETURNS (Dict[str, Any]): Plain JSON types, for a checkpoint.
    """
    sizes: Dict[str, str] = {}
    for shard in shards:
        size = _size_of(shard)
        sizes[shard.name] = f"{sizes[shard.name]} and {size}" if shard.name in sizes else size
    digest = hashlib.sha256("\n".join(" ".join(words) for words in held_out).encode("utf8", "surrogatepass"))
    return {
        **settings,
        "held-out text": f"{len(held_out)} sentences with sha256 {digest.hexdigest()[:16]}",
        "files": sizes,
    }


def changed_text(then: Mapping[str, Any], now: Mapping[str, Any]) -> List[str]:
    """then (Mapping[str, Any]), now (Mapping[str, Any]): From `describe_text`.
    RETURNS (List[str]): A description of each difference.
    """
    found, given = ({**_flat({**record, "files": {}}), **record["files"]} for record in (then, now))
    return [_describe(name, found.get(name, MISSING), given.get(name, MISSING)) for name in _differing(found, given)]


def fingerprint(vocabulary: Vocabulary) -> str:
    """RETURNS (str): sha256 of the words in order."""
    return hashlib.sha256("\n".join(vocabulary.words).encode("utf8", "surrogatepass")).hexdigest()


def _others(record: Mapping[str, Any]) -> Dict[str, Any]:
    return {"bilm": record["bilm"], "vocabulary": record["vocabulary"]}


def _size_of(shard: Shard) -> str:
    path = getattr(shard, "path", None)
    return f"{path.stat().st_size} bytes" if isinstance(path, Path) and path.is_file() else "of unknown size"


def _flat(record: Mapping[str, Any], prefix: str = "") -> Dict[str, Any]:
    """Flatten nested blocks to dotted names, as on the command line."""
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
