"""Find the files of an ELMoForManyLangs model: in a folder, or in a zip, which is read without unpacking."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import FrozenSet, Mapping, Optional

from ...errors import Errors
from ..sources import Source, is_zip, list_sources

CONFIG_NAME, ENCODER_NAME, EMBEDDER_NAME = "config.json", "encoder.pkl", "token_embedder.pkl"
CHARACTERS_NAME, WORDS_NAME = "char.dic", "word.dic"
MARKERS = (ENCODER_NAME, EMBEDDER_NAME)
WANTED = f"a folder or .zip of ELMoForManyLangs with {CONFIG_NAME}, {EMBEDDER_NAME} and {ENCODER_NAME}"


@dataclass(frozen=True)
class ManyLangsFiles:
    """The files of an ELMoForManyLangs model.

    path (Path): The folder, or the zip.
    sources (Mapping[str, Source]): All files by their name relative to `path`; of a folder only those directly in it.
    prefix (str): Folder inside the zip, with a slash at the end, empty for the top.
    """

    path: Path
    sources: Mapping[str, Source]
    prefix: str = ""

    def find(self, name: str) -> Optional[Source]:
        """name (str): Path relative to the model, with slashes.
        RETURNS (Optional[Source]): The file, None if there is none within the folder or zip.
        """
        parts = PurePosixPath(name).parts
        if not parts or ".." in parts or PurePosixPath(name).is_absolute() or "\0" in name:
            return None
        if self.prefix + name in self.sources or not self.path.is_dir():
            return self.sources.get(self.prefix + name)
        file = self.path.joinpath(*parts)
        is_inside = file.resolve().is_relative_to(self.path.resolve())
        return Source(file) if is_inside and file.is_file() else None

    def top_names(self) -> FrozenSet[str]:
        """RETURNS (FrozenSet[str]): Names of the files directly in the folder of the model."""
        inside = (name.removeprefix(self.prefix) for name in self.sources if name.startswith(self.prefix))
        return frozenset(name for name in inside if "/" not in name)


def detect_manylangs(path: Path) -> Optional[ManyLangsFiles]:
    """path (Path): A folder or zip that exists, or one of the two files with weights.
    RETURNS (Optional[ManyLangsFiles]): The files; None for another format.
    RAISES (ValueError): EL021 for a zip with several models, EL022 for a damaged zip.
    """
    path = path.parent if Source(path).name in MARKERS and path.is_file() else path
    if path.is_dir():
        sources = list_sources(path)
        return ManyLangsFiles(path, sources) if any(name in sources for name in MARKERS) else None
    if not is_zip(path):
        return None
    sources = list_sources(path)
    prefixes = sorted({name.removesuffix(marker) for name in sources for marker in MARKERS if _is_named(name, marker)})
    if len(prefixes) > 1:
        listing = ", ".join(prefix or "the top" for prefix in prefixes)
        kind = f"models, each with {' and '.join(MARKERS)}"
        raise ValueError(Errors.EL021.format(path=path, n=len(prefixes), kind=kind, names=listing))
    return ManyLangsFiles(path, sources, prefixes[0]) if prefixes else None


def _is_named(name: str, wanted: str) -> bool:
    return name == wanted or name.endswith("/" + wanted)
