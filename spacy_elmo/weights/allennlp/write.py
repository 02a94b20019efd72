"""Write an archive that AllenNLP 2.10.1 loads: a classifier with an `ElmoTokenEmbedder`, the smallest registered model.

`ElmoTokenEmbedder` reads options.json and an HDF5 file before AllenNLP loads the state dict over them. Both are in the
archive, and its config names them by the folder that AllenNLP unpacks it to (see `jsonnet.py`).
"""

import gzip
import io
import json
import tarfile
import tempfile
import warnings
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import torch

from ...bilm.config import BiLMConfig
from ...encoding.facade import BiLM
from ...errors import Errors, Warnings
from ..bilm_tf.model import find_other_characters, write_bilm_tf
from ..limits import listed
from ..mixes import LoadedMix, mixes_from_meta
from ..parts import check_dtype_fits, to_arrays
from ..tensor_map import Array, export_arrays
from .files import ARCHIVE_NAME, CONFIG_NAME, OPTIONS_NAME, WEIGHTS_NAMES
from .jsonnet import name_members
from .layout import ELMO_MODULE, allennlp_datasets

ELMO = "_text_field_embedder.token_embedder_elmo._elmo."
CLASSIFIER = "_classification_layer."
HDF5_NAME = "weights.hdf5"
ELMO_CHARACTERS = 50  # of AllenNLP's token indexer
COMPRESSION = 1  # weights hardly compress


def write_allennlp(bilm: BiLM, folder: Path, dtype: str) -> None:
    """Write model.tar.gz.

    bilm (BiLM): The model. Its first scalar mix is written, or equal shares; a softmax is kept in the HDF5 file.
    folder (Path): An empty folder.
    dtype (str): "float32".
    RAISES (ValueError): EL311 for a biLM that AllenNLP cannot have, EL318 for invalid mixes in the meta data.
    """
    problems = find_unknown_parts(bilm)
    if problems:
        raise ValueError(Errors.EL311.format(n_problems=len(problems), problems=listed(problems)))
    mix = _first_mix(bilm)
    arrays = _state_dict(bilm, mix)
    check_dtype_fits(arrays, dtype)
    with tempfile.TemporaryDirectory(dir=folder) as inner:
        write_bilm_tf(bilm, Path(inner), dtype)
        members = {file.name: file.read_bytes() for file in sorted(Path(inner).iterdir())}
    config = json.dumps(make_config(bilm.config, mix), indent=2)
    members[CONFIG_NAME] = name_members(config, [OPTIONS_NAME, HDF5_NAME]).encode()
    members[WEIGHTS_NAMES[0]] = _save(arrays)
    members["vocabulary/non_padded_namespaces.txt"] = b"*tags\n*labels\n"
    _write_tar(folder / ARCHIVE_NAME, members)


def make_config(config: BiLMConfig, mix: LoadedMix) -> Dict[str, Any]:
    """config (BiLMConfig): Sizes.
    mix (LoadedMix): Its mix, for the layer norm.
    RETURNS (Dict[str, Any]): config.json of the archive.
    """
    elmo = {
        "type": "elmo_token_embedder",
        "options_file": OPTIONS_NAME,
        "weight_file": HDF5_NAME,
        "do_layer_norm": mix.layer_norm == "allennlp",
        "dropout": 0.0,
    }
    return {
        "dataset_reader": {
            "type": "text_classification_json",
            "token_indexers": {"elmo": {"type": "elmo_characters"}},
            "tokenizer": {"type": "just_spaces"},
        },
        "model": {
            "type": "basic_classifier",
            "text_field_embedder": {"token_embedders": {"elmo": elmo}},
            "seq2vec_encoder": {"type": "boe", "embedding_dim": config.output_width},
            "num_labels": 1,
        },
        "train_data_path": "",
        "trainer": {"num_epochs": 0},
        "data_loader": {"batch_size": 1},
    }


def find_unknown_parts(bilm: BiLM) -> List[str]:
    """RETURNS (List[str]): What AllenNLP's `Elmo` does not have."""
    config = bilm.config
    checks = [
        (config.encoder == "lstm", f"its encoder is '{config.encoder}', should be 'lstm'"),
        (config.char_cnn is not None, "it has no character CNN of its own, should read characters"),
        (config.directions == "both", "it is forward only, should have both directions"),
        (not config.highway_between, "it has highways between its layers, should have skip connections"),
        (config.has_skip or config.n_layers == 1, "it has no skip connections, should have them"),
        (config.has_projection, "its LSTMs have no projection, should have projection_width below cell_width"),
        (bilm.token_embeddings is None, "it has token embeddings, which would be computed from characters instead"),
    ]
    if config.char_cnn is not None:
        n = config.char_cnn.max_characters
        checks.append((config.has_cnn_projection, "its character CNN has no projection, should have one"))
        checks.append((n == ELMO_CHARACTERS, f"it reads {n} characters of a word, should read {ELMO_CHARACTERS}"))
    return [text for is_fine, text in checks if not is_fine] + find_other_characters(config)


def _first_mix(bilm: BiLM) -> LoadedMix:
    mixes = mixes_from_meta(bilm.meta, bilm.config.n_layers)
    if len(mixes) > 1:
        warnings.warn(Warnings.WL311.format(n=len(mixes)), stacklevel=2)
    return mixes[0] if mixes else LoadedMix((0.0,) * (bilm.config.n_layers + 1), 1.0)


def _state_dict(bilm: BiLM, mix: LoadedMix) -> Dict[str, Array]:
    own = export_arrays(allennlp_datasets(bilm.config), to_arrays(bilm.network))
    arrays = {f"{ELMO}{ELMO_MODULE}{name}": array for name, array in own.items()}
    arrays[f"{ELMO}scalar_mix_0.gamma"] = np.array([mix.gamma], dtype="float32")
    for k, weight in enumerate(mix.weights):
        arrays[f"{ELMO}scalar_mix_0.scalar_parameters.{k}"] = np.array([weight], dtype="float32")
    arrays[f"{CLASSIFIER}weight"] = np.zeros((1, bilm.config.output_width), dtype="float32")
    arrays[f"{CLASSIFIER}bias"] = np.zeros(1, dtype="float32")
    return arrays


def _save(arrays: Dict[str, Array]) -> bytes:
    stream = io.BytesIO()
    torch.save({name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}, stream)
    return stream.getvalue()


def _write_tar(path: Path, members: Dict[str, bytes]) -> None:
    """The same bytes for the same members: no times, no owners."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", COMPRESSION, raw, mtime=0) as stream:
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name in sorted(members):
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(members[name]), 0o644
                archive.addfile(member, io.BytesIO(members[name]))
