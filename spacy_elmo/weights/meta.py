"""Meta data of a biLM: its name, language, licence, sources and training, and the scalar mixes trained with it.

Folders in the native format and in the format of bilm-tf have them in `meta.json`, with the digest of the weights of
which the file is a rounded copy. A download has a record of its origin beside it.
"""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass

from ..bilm.config import MAX_ABSOLUTE
from ..inference.bilm import BiLM
from ..inference.digest import RoundedCopy
from ..settings import AnyNorm, Number, check_record
from ..util import shorten
from .archive import Array

META_NAME, RECORD_NAME = "meta.json", "origin.json"
FORMAT_KEY = "source_format"  # the format that a biLM was read from
RECORD_KEYS = {"name": "name", "lang": "language", "license": "licence", "source": "documented", "paper": "paper"}

COPY_KEY = "rounded_copy"  # in files only

MIXES_KEY = "scalar_mixes"  # in the meta data of a biLM
Absolute = Annotated[Number, Field(ge=-MAX_ABSOLUTE, le=MAX_ABSOLUTE)]


def read_record(path: Path) -> Optional[Dict[str, Any]]:
    """The record of `elmo download` in a folder, or beside a file; None if there is no record that can be read."""
    place = (path if path.is_dir() else path.parent) / RECORD_NAME
    try:
        record = json.loads(place.read_text(encoding="utf8"))
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def read_record_meta(path: Path) -> Dict[str, str]:
    """Name, language, licence, page and paper of a download, as far as they are stated, for its folder, or a file or
    checkpoint in it that the record names.
    """
    record = read_record(path) or {}
    files = record.get("files")
    names = [file.get("name") for file in files if isinstance(file, dict)] if isinstance(files, list) else []
    stated = {key: record.get(theirs) for key, theirs in RECORD_KEYS.items()}
    is_downloaded = path.is_dir() or any(f"{name}.".startswith(f"{path.name}.") for name in names)
    return {key: value for key, value in stated.items() if is_downloaded and isinstance(value, str) and value}


def make_file_meta(bilm: BiLM, dtype: str, rounded: Mapping[str, Array]) -> Dict[str, Any]:
    """Meta data for a file in a dtype, with the digest of the weights that were rounded, if they were; `rounded` are
    the weights as they will be read, by the names of `collect_weights`.
    """
    record = {key: value for key, value in (bilm.meta or {}).items() if key != COPY_KEY}
    if dtype == bilm.precision == "float32":
        copied = bilm.rounded_copy
    else:
        weights = {name: torch.from_numpy(array.astype("float32")) for name, array in rounded.items()}
        copied = bilm.describe_copy(weights)
    return record if copied is None else {**record, COPY_KEY: copied._asdict()}


def split_copy(record: Mapping[str, Any]) -> Tuple[Dict[str, Any], Optional[RoundedCopy]]:
    """Split the meta data of a file into the meta data of the biLM and the weights of which the file has a rounded
    copy. An entry that is not valid is ignored: the biLM then has the digest of the rounded values.
    """
    meta = dict(record)
    copied = meta.pop(COPY_KEY, None)
    digests = [copied.get(name) for name in RoundedCopy._fields] if isinstance(copied, Mapping) else []
    texts = [digest for digest in digests if isinstance(digest, str)]
    return meta, RoundedCopy(*texts) if len(texts) == len(RoundedCopy._fields) else None


def list_training_texts(meta: Any) -> List[Dict[str, str]]:
    """The texts to be attributed, in spaCy's form of `sources`: a name, and other facts such as the licence. Meta data
    have them in `sources`, or in `corpus.sources` as in configs of `elmo pretrain`; the texts of the biLM that the
    training started from, in `init`, follow.
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


@dataclass(frozen=True)
class LoadedMix:
    """A scalar mix that was trained with a biLM, Peters et al. (2018), eq. 1.

    weights (Sequence[float]): Raw weights, one per layer, the token layer first.
    gamma (float): Scale.
    layer_norm (Optional[str]): Norm of each layer before the mix: "allennlp" for AllenNLP's do_layer_norm, or None.
    """

    weights: Tuple[Absolute, ...]
    gamma: Absolute
    layer_norm: Optional[AnyNorm] = None

    @property
    def shares(self) -> List[float]:
        """softmax(weights), the share of each layer."""
        powers = [math.exp(weight - max(self.weights)) for weight in self.weights]
        return [power / sum(powers) for power in powers]


def mixes_to_meta(mixes: Sequence[LoadedMix]) -> Dict[str, Any]:
    """The entry of the meta data, empty without mixes; plain JSON types."""
    records = [{**asdict(mix), "weights": [float(weight) for weight in mix.weights]} for mix in mixes]
    return {MIXES_KEY: records} if records else {}


def mixes_from_meta(meta: Optional[Mapping[str, Any]], n_layers: int) -> Tuple[LoadedMix, ...]:
    """The inverse of `mixes_to_meta`, for a biLM of L layers, whose mixes have L + 1 weights. ValueError for anything
    but mixes under their key.
    """
    records = (meta or {}).get(MIXES_KEY) or []
    checked = [check_record(LoadedMix, record)[0] for record in records] if isinstance(records, list) else [None]
    mixes = tuple(mix for mix in checked if mix is not None and len(mix.weights) == n_layers + 1)
    if len(mixes) < len(checked):
        problem = (
            f"{MIXES_KEY} in its meta data is {shorten(repr(records), 200)}, should be a list of objects with "
            f"`weights` ({n_layers + 1} numbers), `gamma` (a number) and optionally `layer_norm`"
        )
        raise ValueError(f"The scalar mixes of the biLM cannot be used: {problem}. Correct or remove the entry.")
    return mixes
