"""lexicon.json of the native format: the symbols of a biLM with a token embedder, by id."""

from typing import Any, Dict, List, Mapping, Optional

from ...bilm.config import BiLMConfig
from ...encoding.word_encoder import make_lexicon_codec
from ...text.lexicon import Lexicon
from ..limits import MIB
from ..sources import Source, read_json, unreadable

MAX_BYTES = 256 * MIB
NAMES = ("characters", "words")


def lexicon_record(lexicon: Lexicon) -> Dict[str, List[Optional[str]]]:
    """RETURNS (Dict[str, List[Optional[str]]]): The inverse of `parse_lexicon`, plain JSON types."""
    return {"characters": list(lexicon.characters), "words": list(lexicon.words)}


def read_lexicon(source: Source) -> Lexicon:
    """source (Source): lexicon.json.
    RETURNS (Lexicon): The symbols.
    RAISES (ValueError): EL022 if it is not a lexicon, EL036 if it is too large.
    """
    return parse_lexicon(read_json(source, MAX_BYTES), str(source))


def parse_lexicon(record: Any, where: str) -> Lexicon:
    """record (Any): The parsed JSON.
    where (str): Its source, for messages.
    RETURNS (Lexicon): The symbols.
    RAISES (ValueError): EL022 if it is not a lexicon.
    """
    tables: List[Any] = [record.get(name) for name in NAMES] if isinstance(record, Mapping) else []
    is_fine = bool(tables) and all(isinstance(table, list) and all(map(_is_symbol, table)) for table in tables)
    if not is_fine:
        reason = f"it does not have the lists of strings {' and '.join(NAMES)}"
        raise unreadable(where, "lexicon", reason)
    return Lexicon(*tables)


def check_lexicon(config: BiLMConfig, lexicon: Optional[Lexicon]) -> None:
    """RAISES (ValueError): EL300 if a biLM with a token embedder has no lexicon that fits it."""
    if config.token_embedder is not None:
        make_lexicon_codec(config, lexicon)


def _is_symbol(value: Any) -> bool:
    return value is None or isinstance(value, str)
