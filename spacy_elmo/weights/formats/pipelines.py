"""A biLM in a saved spaCy pipeline: the folder of `nlp.to_disk`, of one of its components, or the file in it.

The component `elmo`, and all that contain a biLM, have it as safetensors inside the msgpack of Thinc;
`elmo_surprisal` has it in a file. Neither spaCy nor Thinc is needed to read it: the safetensors begin eight bytes
before their settings, which have a name, and their header has their ends. In place of a constant packaged biLM
there is a reference to it, a JSON object.
"""

import json
import mmap
from pathlib import Path
from typing import List, Optional, Tuple

import srsly

from ...about import __version__
from ...inference.bilm import BiLM
from ...inference.runtime import isolated
from ..archive import (
    File,
    Listing,
    ModelFiles,
    decoding,
    no_such_bilm,
    parse_json,
    read_object,
)
from ..meta import META_NAME
from .native import BYTES_KEY, METADATA_KEY, PACKAGED_NAMES, bilm_from_bytes, find_packaged_files, read_native

PIPELINE_CONFIG = "config.cfg"
COMPONENT_FILES = ("model", "bilm")  # of a component
MARK = f'{{"{METADATA_KEY}":{{"{BYTES_KEY}":'.encode()
REFERENCE_MARK = b'{"packaged":'  # the first bytes of a reference
PIPELINE_KIND = "biLM of a pipeline"
SIZE_BYTES = 8  # of the length of the header, before it


def detect_pipeline(listing: Listing) -> Optional[ModelFiles]:
    """The files with a biLM by the names of their components, in the order of the pipeline; `weights` is the
    first.
    """
    path = listing.path
    if listing.file is not None:
        by_component = {path.parent.name: listing.file} if path.name in COMPONENT_FILES and _has_bilm(path) else {}
    elif listing.kind == "folder":
        folders = {path.name: path, **{name: path / name for name in component_names(path)}}
        files = [(name, folder / file) for name, folder in folders.items() for file in COMPONENT_FILES]
        by_component = {name: File(file) for name, file in files if _has_bilm(file)}
    else:
        return None
    return ModelFiles(str(listing.where), next(iter(by_component.values())), by_component) if by_component else None


def component_names(folder: Path) -> List[str]:
    """The components of a saved pipeline in their order; empty for another folder."""
    if not (folder / PIPELINE_CONFIG).is_file() or not (folder / META_NAME).is_file():
        return []
    names = read_object(File(folder / META_NAME), "meta data").get("components")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def reference_to_bytes(name: str, bilm: BiLM) -> bytes:
    """What is saved in place of a packaged biLM: its name, its digest, and the version of this package."""
    reference = {"packaged": name, "digest": bilm.digest, "version": __version__}
    return str(srsly.json_dumps(reference)).encode("utf8")


@isolated
def load_referenced(content: bytes) -> Tuple[str, BiLM]:
    """The packaged name and the biLM of a reference from `reference_to_bytes`, in a pipeline that was saved without the
    weights of its biLM. ValueError if this version of the package has no biLM of the name, or another biLM.
    """
    reference = parse_json(content, "the reference to a packaged biLM")
    name, digest = reference["packaged"], str(reference.get("digest"))
    bilm = read_native(find_packaged_files(name)) if name in PACKAGED_NAMES else None
    if bilm is None or bilm.digest != digest:
        present = ", ".join(PACKAGED_NAMES) if bilm is None else f"'{name}' with digest {bilm.digest}"
        raise ValueError(
            f"The pipeline was saved with the packaged biLM '{name}' of digest {digest}, but this version of "
            f"spacy-elmo ({__version__}) has {present}. Install spacy-elmo {reference.get('version')}, or train the "
            "pipeline again."
        )
    return name, bilm


def read_pipeline(files: ModelFiles, name: Optional[str] = None) -> BiLM:
    """The biLM of a component, or of the first one with a biLM; without a softmax except for `elmo_surprisal`.

    RAISES (ValueError): If no component with a biLM has the name; EL022 for a damaged file.
    """
    if name is not None and name not in files.by_name:
        raise no_such_bilm(files.where, name, ", ".join(files.by_name))
    weights = files.weights if name is None else files.by_name[name]
    with (
        decoding(weights, PIPELINE_KIND),
        weights.path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        if (start := content.find(REFERENCE_MARK)) >= 0:
            reference, tensors = content[start : content.find(b"}", start) + 1], b""
        else:
            start = content.find(MARK) - SIZE_BYTES
            first = start + SIZE_BYTES + int.from_bytes(content[start : start + SIZE_BYTES], "little")
            header = json.loads(content[start + SIZE_BYTES : first])
            ends = [entry["data_offsets"][1] for key, entry in header.items() if key != METADATA_KEY]
            reference, tensors = b"", content[start : first + max(ends, default=0)]
    return load_referenced(reference)[1] if reference else bilm_from_bytes(tensors, str(weights))


def _has_bilm(path: Path) -> bool:
    if not path.is_file() or path.stat().st_size <= SIZE_BYTES:
        return False
    with (
        decoding(path, PIPELINE_KIND),
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return content.find(MARK) >= SIZE_BYTES or content.find(REFERENCE_MARK) >= 0
