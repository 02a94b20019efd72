"""The registry of published biLMs: where each of them is documented to be, under which licence and paper.

`origins.json` lists facts with their sources. A sha256 or a size is null unless the publisher or a log of a download
documents it; nothing in it is estimated.
"""

import json
import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ...errors import Errors

REGISTRY = Path(__file__).parent / "origins.json"
NLPL_NAME = re.compile(r"nlpl-(\d{1,6})")
MAX_NAMED = 12  # names in an error


@dataclass(frozen=True)
class OriginFile:
    """A file of a published biLM.

    path (str): Its path, relative to a mirror.
    name (str): Its name in the folder of the download.
    n_bytes (Optional[int]): Its documented size.
    sha256 (Optional[str]): Its documented checksum.
    """

    path: str
    name: str
    n_bytes: Optional[int]
    sha256: Optional[str]


@dataclass(frozen=True)
class Origin:
    """A published biLM.

    name (str): Name on the command line.
    aliases (Tuple[str, ...]): Other names.
    language (Optional[str]): Code of the language, None if it is not known.
    format (str): Format of the files.
    n_parameters (Optional[int]): Documented number of parameters.
    note (str): Documented training data.
    files (Tuple[OriginFile, ...]): Its files.
    mirrors (Tuple[str, ...]): Addresses that `path` is relative to, in the order in which they are tried.
    licence (Optional[str]): Licence, as stated by the publisher; None if no statement is known.
    licence_source (Optional[str]): Where it is stated.
    paper (Optional[str]): Paper to cite.
    documented (str): Page that documents the addresses.
    """

    name: str
    aliases: Tuple[str, ...]
    language: Optional[str]
    format: str
    n_parameters: Optional[int]
    note: str
    files: Tuple[OriginFile, ...]
    mirrors: Tuple[str, ...]
    licence: Optional[str]
    licence_source: Optional[str]
    paper: Optional[str]
    documented: str

    @property
    def size(self) -> str:
        """RETURNS (str): The documented size: of all files, or in parameters, or "not documented"."""
        sizes = [file.n_bytes for file in self.files]
        if all(size is not None for size in sizes):
            return f"{sum(size or 0 for size in sizes) / 1e6:,.0f} MB"
        if self.n_parameters is not None:
            return f"{self.n_parameters / 1e6:.1f} M parameters"
        return "not documented"


@lru_cache(maxsize=1)
def read_origins() -> Tuple[Origin, ...]:
    """RETURNS (Tuple[Origin, ...]): All published biLMs of the registry."""
    record = json.loads(REGISTRY.read_text(encoding="utf8"))
    return tuple(_origin(entry, record["sources"]) for entry in record["models"])


def find_origin(name: str) -> Origin:
    """name (str): Name or alias, or nlpl-NUMBER for any entry of the NLPL repository.
    RETURNS (Origin): The published biLM.
    RAISES (ValueError): EL360 for an unknown name.
    """
    by_name = _by_name()
    if name in by_name:
        return by_name[name]
    number = NLPL_NAME.fullmatch(name)
    if number is None:
        close = get_close_matches(name, by_name, n=MAX_NAMED)
        shown = close or [origin.name for origin in read_origins()][:MAX_NAMED]
        raise ValueError(Errors.EL360.format(name=name, kind="Similar" if close else "Some", close=", ".join(shown)))
    files = [{"path": f"{number[1]}.zip", "name": f"{number[1]}.zip", "n_bytes": None, "sha256": None}]
    entry = {"name": name, "source": "nlpl", "language": None, "format": "zip", "note": "not in the registry"}
    sources = json.loads(REGISTRY.read_text(encoding="utf8"))["sources"]
    return _origin({**entry, "aliases": [], "n_parameters": None, "files": files}, sources)


def _by_name() -> Dict[str, Origin]:
    return {name: origin for origin in read_origins() for name in (origin.name, *origin.aliases)}


def _origin(entry: Mapping[str, Any], sources: Mapping[str, Any]) -> Origin:
    """An entry with the facts of its source, where it has none of its own."""
    facts = {**sources[entry["source"]], **entry}
    files: List[OriginFile] = [OriginFile(**file) for file in facts["files"]]
    names = ("name", "language", "format", "n_parameters", "note", "licence", "licence_source", "paper", "documented")
    return Origin(
        aliases=tuple(facts["aliases"]),
        files=tuple(files),
        mirrors=tuple(facts["mirrors"]),
        **{name: facts[name] for name in names},
    )
