"""Find the files of a biLM in native format."""

from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional

from ..sources import Source, kind_of, list_sources

CONFIG_NAME, WEIGHTS_NAME = "config.json", "weights.safetensors"
META_NAME, VOCAB_NAME = "meta.json", "vocab.txt"
LEXICON_NAME = "lexicon.json"  # symbols of a biLM with a token embedder
NETWORK_PREFIX = "bilm."  # of the arrays of the network
WANTED = f"a folder with {CONFIG_NAME} and {WEIGHTS_NAME}"


@dataclass(frozen=True)
class NativeFiles:
    """The files of a biLM in native format.

    folder (Path): Where they are.
    weights (Source): The safetensors file.
    sources (Mapping[str, Source]): All files of the folder by name, config.json among them.
    """

    folder: Path
    weights: Source
    sources: Mapping[str, Source]


def detect_native(path: Path) -> Optional[NativeFiles]:
    """path (Path): A folder that exists, or one of the two files in it.
    RETURNS (Optional[NativeFiles]): The files if they are in native format, else None. The weights may have any name.
    """
    given = Source(path)
    is_weights = not path.is_dir() and (given.name == WEIGHTS_NAME or has_network(given))
    if not path.is_dir() and given.name != CONFIG_NAME and not is_weights:
        return None
    folder = path if path.is_dir() else path.parent
    sources = list_sources(folder) if folder.is_dir() else {}
    if CONFIG_NAME not in sources:
        return None
    found = [given] if is_weights else [sources[WEIGHTS_NAME]] if WEIGHTS_NAME in sources else []
    if not found:
        found = [source for source in sources.values() if has_network(source)]
    return NativeFiles(folder, found[0], sources) if len(found) == 1 else None


def has_network(source: Source) -> bool:
    """RETURNS (bool): Whether this is a safetensors file with the arrays of a network."""
    head = source.read_head()
    if kind_of(head) != "safetensors":
        return False
    return f'"{NETWORK_PREFIX}'.encode() in source.read_head(8 + int.from_bytes(head[:8], "little"))
