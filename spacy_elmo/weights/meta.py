"""Meta data of a biLM: its name, language, licence, sources and training, which every format keeps.

The native format and that of bilm-tf have them in `meta.json`. A download has a record of its origin beside it.
"""

import json
import warnings
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from .sources import MAX_JSON_BYTES, Source, check_size, read_json, unreadable

META_NAME, RECORD_NAME = "meta.json", "origin.json"
MAX_RECORD_BYTES = 2**20
FORMAT_KEY = "source_format"  # the format that a biLM was read from
RECORD_KEYS = {"name": "name", "lang": "language", "license": "licence", "source": "documented", "paper": "paper"}


def read_meta(source: Source) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): The content of a meta.json.
    RAISES (ValueError): EL022 if it is not an object of JSON.
    """
    meta = read_json(source)
    if not isinstance(meta, dict):
        raise unreadable(source, "meta data", f"it contains a {type(meta).__name__} instead of an object {{...}}")
    return meta


def read_foreign_meta(source: Optional[Source]) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): The content of a meta.json that any program may have written; none, with a warning, of
    a file that cannot be read.
    """
    try:
        return {} if source is None else read_meta(source)
    except ValueError as error:
        text = f"{error} The biLM is loaded without these meta data (name, language, licence): no vector needs them."
        warnings.warn(text, stacklevel=2)
        return {}


def dump_meta(meta: Optional[Mapping[str, Any]]) -> bytes:
    """RETURNS (bytes): The inverse of `read_meta`.
    RAISES (ValueError): EL036 for meta data that could not be read.
    """
    content = json.dumps(meta or {}, indent=2).encode("ascii")  # srsly rounds numbers
    check_size(META_NAME, len(content), MAX_JSON_BYTES)
    return content


def dump_foreign_meta(meta: Optional[Mapping[str, Any]]) -> Optional[bytes]:
    """RETURNS (Optional[bytes]): As `dump_meta`; None if there is nothing but the format that the biLM had before."""
    stated = {key: value for key, value in (meta or {}).items() if key != FORMAT_KEY}
    return dump_meta(stated) if stated else None


def read_record(path: Path) -> Optional[Dict[str, Any]]:
    """path (Path): A folder, or a file in it.
    RETURNS (Optional[Dict[str, Any]]): The record of `elmo download`, None if there is none that can be read.
    """
    place = (path if path.is_dir() else path.parent) / RECORD_NAME
    try:
        with place.open("rb") as file:
            record = json.loads(file.read(MAX_RECORD_BYTES).decode("utf8"))
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def read_record_meta(path: Path) -> Dict[str, str]:
    """path (Path): A folder, or a file or checkpoint in it, which the record must name.
    RETURNS (Dict[str, str]): Name, language, licence, page and paper of a download, as far as they are stated.
    """
    record = read_record(path) or {}
    files = record.get("files")
    names = [file.get("name") for file in files if isinstance(file, dict)] if isinstance(files, list) else []
    stated = {key: record.get(theirs) for key, theirs in RECORD_KEYS.items()}
    is_downloaded = path.is_dir() or any(f"{name}.".startswith(f"{path.name}.") for name in names)
    return {key: value for key, value in stated.items() if is_downloaded and isinstance(value, str) and value}


def list_training_texts(meta: Any) -> List[Dict[str, str]]:
    """The texts to be attributed, in spaCy's form of `sources`: a name, and other facts such as the licence.

    meta (Any): Meta data of a biLM, with `sources`, or `corpus.sources` as in configs of `elmo pretrain`, and under
        `init` those of the biLM that its training started from.
    RETURNS (List[Dict[str, str]]): The texts of the biLM, then those of the biLM that it was trained from.
    """
    texts: List[Dict[str, str]] = []
    while isinstance(meta, Mapping):
        corpus, init = meta.get("corpus"), meta.get("init")
        listed = meta.get("sources") or (corpus.get("sources") if isinstance(corpus, Mapping) else None)
        listed = listed if isinstance(listed, list) else []
        items = [{"name": item} if isinstance(item, str) else item for item in listed]
        texts += [{key: str(value) for key, value in item.items()} for item in items if isinstance(item, dict)]
        meta = init.get("meta") if isinstance(init, Mapping) else None
    return [text for k, text in enumerate(texts) if text not in texts[:k]]
