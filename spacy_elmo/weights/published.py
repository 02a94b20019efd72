"""The registry of published biLMs: where each of them is documented to be, under which licence and paper.

`published.json` lists facts with their sources. A sha256 or a size is null unless the publisher or a log of a download
documents it; nothing in it is estimated.
"""

import json
import re
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

REGISTRY = Path(__file__).parent / "published.json"
NLPL_NAME = re.compile(r"nlpl-(\d{1,6})")
MAX_LISTED = 12  # names in an error


@dataclass(frozen=True)
class PublishedFile:
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
class Published:
    """A published biLM.

    name (str): Name on the command line.
    aliases (Tuple[str, ...]): Other names.
    language (Optional[str]): Code of the language, None if it is not known.
    format (str): Format of the files.
    n_parameters (Optional[int]): Documented number of parameters.
    note (str): Documented training data.
    files (Tuple[PublishedFile, ...]): Its files.
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
    files: Tuple[PublishedFile, ...]
    mirrors: Tuple[str, ...]
    licence: Optional[str]
    licence_source: Optional[str]
    paper: Optional[str]
    documented: str

    @property
    def size(self) -> str:
        """The documented size: of all files, or in parameters, or "not documented"."""
        sizes = [file.n_bytes for file in self.files]
        if all(size is not None for size in sizes):
            return f"{sum(size or 0 for size in sizes) / 1e6:,.0f} MB"
        if self.n_parameters is not None:
            return f"{self.n_parameters / 1e6:.1f} M parameters"
        return "not documented"


@lru_cache(maxsize=1)
def list_published() -> Tuple[Published, ...]:
    registry = _read_registry()
    return tuple(_read_entry(entry, registry["sources"]) for entry in registry["models"])


def find_published(name: str) -> Published:
    """The published biLM of a name or alias, or nlpl-NUMBER for any entry of the NLPL repository. ValueError for an
    unknown name.
    """
    by_name = {name: entry for entry in list_published() for name in (entry.name, *entry.aliases)}
    if name in by_name:
        return by_name[name]
    nlpl = NLPL_NAME.fullmatch(name)
    if nlpl is None:
        listing = ", ".join([entry.name for entry in list_published()][:MAX_LISTED])
        raise ValueError(
            f"There is no published biLM '{name}' in the registry. Some names: {listing}. List all names with "
            "`python -m spacy elmo download --list`; nlpl-NUMBER is any entry of the NLPL repository."
        )
    files = [{"path": f"{nlpl[1]}.zip", "name": f"{nlpl[1]}.zip", "n_bytes": None, "sha256": None}]
    entry = {"name": name, "source": "nlpl", "language": None, "format": "zip", "note": "not in the registry"}
    return _read_entry({**entry, "aliases": [], "n_parameters": None, "files": files}, _read_registry()["sources"])


def describe_published(lang: str) -> str:
    """A sentence on the published biLMs of a language, with the command that downloads the first."""
    code = lang.lower().replace("_", "-").split("-")[0]
    names = [entry.name for entry in list_published() if entry.language == code]
    if not names:
        return f"`elmo download --list` has none for '{lang}' either: train one with `elmo pretrain`."
    command = f"python -m spacy elmo download {names[0]} --dest weights/{names[0]}"
    return f"`elmo download --list` has for '{lang}': {', '.join(names)} (`{command}`)."


def _read_registry() -> Dict[str, Any]:
    registry: Dict[str, Any] = json.loads(REGISTRY.read_text(encoding="utf8"))
    return registry


def _read_entry(entry: Mapping[str, Any], sources: Mapping[str, Any]) -> Published:
    """An entry with the facts of its source that the entry does not state."""
    facts = {**sources[entry["source"]], **entry}
    lists = {name: tuple(facts[name]) for name in ("aliases", "mirrors")}
    files = tuple(PublishedFile(**file) for file in facts["files"])
    return Published(**{**{field.name: facts[field.name] for field in fields(Published)}, **lists, "files": files})
