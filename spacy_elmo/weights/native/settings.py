"""The settings in config.json of the native format, or in the header of bytes, and their checks."""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from ...bilm.config import BiLMConfig
from ...bilm.lm_head import AdaptiveHead
from ...encoding.facade import BiLM
from ...errors import Errors
from ..limits import MAX_CUTOFFS, MAX_WORDS, find_excess, shorten
from ..parts import is_head_shared
from ..sources import parse_json, unreadable
from .softmax_head import empty_adaptive_head, head_record

FORMAT_VERSION = 1
BYTES_KEY = "spacy_elmo"
METADATA_KEY = "__metadata__"


class Settings(NamedTuple):
    """The settings in config.json.

    config (BiLMConfig): Config of the network.
    is_shared (bool): Whether the softmax shares the word table.
    adaptive (Optional[AdaptiveHead]): An adaptive softmax without weights.
    """

    config: BiLMConfig
    is_shared: bool
    adaptive: Optional[AdaptiveHead]


def config_record(bilm: BiLM) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): The inverse of `read_config`, plain JSON types."""
    return {
        "format_version": FORMAT_VERSION,
        "bilm": bilm.config.to_dict(),
        "shares_softmax": is_head_shared(bilm.network, bilm.head),
        **head_record(bilm.head),
    }


def read_config(record: Any, where: str) -> Settings:
    """record (Any): The parsed JSON.
    where (str): Its source, for messages.
    RETURNS (Settings): The settings, all within the limits.
    RAISES (ValueError): EL023 with all problems.
    """
    settings = record.get("bilm") if isinstance(record, Mapping) else None
    if not isinstance(settings, Mapping):
        raise ValueError(Errors.EL023.format(path=where, problems="config.json has no block 'bilm'"))
    if record.get("format_version") != FORMAT_VERSION:
        found = shorten(repr(record.get("format_version")), 40)
        problem = f"format_version is {found}, but this package reads {FORMAT_VERSION}"
        raise ValueError(Errors.EL023.format(path=where, problems=problem))
    problems = _adaptive_problems(record.get("adaptive_softmax"))
    try:
        config = BiLMConfig.from_dict(settings)
        problems = [*find_excess(config), *_sharing_problems(record, config), *problems]
        adaptive = None if problems else empty_adaptive_head(record, config.projection_width)
    except (ValueError, TypeError) as error:
        problems.append(str(error).rstrip("."))
    if problems:
        raise ValueError(Errors.EL023.format(path=where, problems=shorten("; ".join(problems))))
    return Settings(config, bool(record.get("shares_softmax")), adaptive)


def read_header(content: bytes, where: str) -> Dict[str, Any]:
    """content (bytes): Valid safetensors: 8 bytes with the length of the header, then the header in JSON.
    RETURNS (Dict[str, Any]): `config`, `vocabulary` (a list of strings or None) and `meta`.
    RAISES (ValueError): EL022 if the header does not contain our settings, EL039 with all type errors.
    """
    length = int.from_bytes(content[:8], "little")
    metadata = parse_json(content[8 : 8 + length], where).get(METADATA_KEY) or {}
    if BYTES_KEY not in metadata:
        raise unreadable(where, "biLM", "no settings in the header")
    record = parse_json(metadata[BYTES_KEY], where)
    problems = _header_problems(record)
    if problems:
        raise ValueError(Errors.EL039.format(path=where, problems="; ".join(problems)))
    words, meta = record.get("vocabulary"), record.get("meta")
    found = {"config": record["config"], "vocabulary": words, "meta": {} if meta is None else meta}
    return {**found, "lexicon": record.get("lexicon")}


def _header_problems(record: Any) -> List[str]:
    if not isinstance(record, Mapping):
        return [f"it contains a {type(record).__name__} instead of an object"]
    words, meta = record.get("vocabulary"), record.get("meta")
    problems = [] if isinstance(record.get("config"), Mapping) else ["config is missing or is not an object"]
    if words is not None and not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
        problems.append("vocabulary is not a list of strings")
    if meta is not None and not isinstance(meta, Mapping):
        problems.append(f"meta is a {type(meta).__name__}, should be an object")
    return problems


def _sharing_problems(record: Mapping[str, Any], config: BiLMConfig) -> List[str]:
    is_shared = record.get("shares_softmax", False)
    if not isinstance(is_shared, bool):
        return [f"shares_softmax is {shorten(repr(is_shared), 40)}, should be true or false"]
    if is_shared and config.n_words is None:
        return ["shares_softmax is true, but a biLM that reads characters has no word table"]
    return []


def _adaptive_problems(settings: Any) -> List[str]:
    """Check types and limits; `AdaptiveHead` itself checks the cutoffs."""
    if settings is None:
        return []
    if not isinstance(settings, Mapping):
        return [f"adaptive_softmax is a {type(settings).__name__}, should be an object"]
    n_words, cutoffs, div_value = (settings.get(name) for name in ("n_words", "cutoffs", "div_value"))
    is_list = isinstance(cutoffs, list) and len(cutoffs) <= MAX_CUTOFFS and all(type(n) is int for n in cutoffs)
    is_number = isinstance(div_value, (int, float)) and not isinstance(div_value, bool)
    checks = [
        (set(settings) == {"n_words", "cutoffs", "div_value"}, f"has {sorted(settings)}"),
        (type(n_words) is int and 1 <= n_words <= MAX_WORDS, f"has n_words {n_words!r}"),
        (is_list, f"has cutoffs {cutoffs!r}"),
        (is_number and 1 <= (div_value or 0) <= MAX_WORDS, f"has div_value {div_value!r}"),
    ]
    wanted = f"n_words (1 to {MAX_WORDS:,}), cutoffs (at most {MAX_CUTOFFS} integers) and div_value (1 or more)"
    return [f"adaptive_softmax {shorten(text, 80)}, should have {wanted}" for is_fine, text in checks if not is_fine]
