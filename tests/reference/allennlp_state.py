"""State dicts of AllenNLP 2.10.1 from arrays in bilm-tf's layout, written from its source, apart from our mapping.

Facts: allennlp/modules/elmo.py, elmo_lstm.py, highway.py, scalar_mix.py and lstm_cell_with_projection.py.
"""

import io
import json
import tarfile
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence

import numpy as np
import torch

ELMO = "text_field_embedder.token_embedder_elmo._elmo."
WEIGHTS, GAMMA = (0.3, -1.2, 0.8), 1.7


def elmo_state(
    arrays: Mapping[str, np.ndarray],
    options: Mapping[str, Any],
    prefix: str = ELMO,
    mixes: Sequence[Any] = ((WEIGHTS, GAMMA),),
) -> Dict[str, torch.Tensor]:
    """The state dict of an `Elmo` module."""
    state: Dict[str, np.ndarray] = {}
    embedder = "_elmo_lstm._token_embedder."
    table = arrays["char_embed"]
    state[embedder + "_char_embedding_weights"] = np.vstack([np.zeros((1, table.shape[1])), table])
    for i in range(len(options["char_cnn"]["filters"])):
        state[f"{embedder}char_conv_{i}.weight"] = np.transpose(arrays[f"CNN/W_cnn_{i}"][0], (2, 1, 0))
        state[f"{embedder}char_conv_{i}.bias"] = arrays[f"CNN/b_cnn_{i}"]
    for k in range(options["char_cnn"].get("n_highway") or 0):
        base, theirs = f"CNN_high_{k}/", f"{embedder}_highways._layers.{k}."
        state[theirs + "weight"] = np.vstack([arrays[base + "W_transform"].T, -1.0 * arrays[base + "W_carry"].T])
        state[theirs + "bias"] = np.hstack([arrays[base + "b_transform"], -1.0 * arrays[base + "b_carry"]])
    state[embedder + "_projection.weight"] = arrays["CNN_proj/W_proj"].T
    state[embedder + "_projection.bias"] = arrays["CNN_proj/b_proj"]
    width = options["lstm"]["projection_dim"]
    for layer in range(options["lstm"]["n_layers"]):
        for number, direction in enumerate(("forward", "backward")):
            cell = f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
            theirs = f"_elmo_lstm._elmo_lstm.{direction}_layer_{layer}."
            i, j, f, o = np.split(arrays[cell + "W_0"].T, 4)  # each (H, 2P)
            weight = np.vstack([i, f, j, o])
            state[theirs + "input_linearity.weight"] = weight[:, :width]
            state[theirs + "state_linearity.weight"] = weight[:, width:]
            i, j, f, o = np.split(arrays[cell + "B"], 4)
            state[theirs + "state_linearity.bias"] = np.hstack([i, f + np.float32(1), j, o])
            state[theirs + "state_projection.weight"] = arrays[cell + "W_P_0"].T
    for k, (weights, gamma) in enumerate(mixes):
        state[f"scalar_mix_{k}.gamma"] = np.array([gamma])
        state.update({f"scalar_mix_{k}.scalar_parameters.{i}": np.array([weight]) for i, weight in enumerate(weights)})
    return {prefix + name: torch.from_numpy(array.astype("float32").copy()) for name, array in state.items()}


def task_state() -> Dict[str, torch.Tensor]:
    return {"encoder._module.weight_ih_l0": torch.ones(6, 4), "tag_projection_layer._module.bias": torch.zeros(3)}


def make_config(**elmo: Any) -> Dict[str, Any]:
    """The config of a tagger with an `ElmoTokenEmbedder`."""
    block = {"type": "elmo_token_embedder", "options_file": "s3/options.json", "weight_file": "s3/w.hdf5", **elmo}
    embedder = {"token_embedders": {"elmo": {key: value for key, value in block.items() if value is not ...}}}
    return {"model": {"type": "simple_tagger", "text_field_embedder": embedder}}


def to_bytes(state: Any, **settings: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(state, stream, **settings)
    return stream.getvalue()


def write_archive(
    path: Path,
    state: Any,
    config: Optional[Mapping[str, Any]] = None,
    members: Optional[Mapping[str, bytes]] = None,
    mode: str = "w:gz",
) -> Path:
    """A model.tar.gz as AllenNLP packs it."""
    content = {
        "config.json": json.dumps(make_config() if config is None else config).encode(),
        "weights.th": to_bytes(state),
        "vocabulary/labels.txt": b"O\nPER\n",
        **(members or {}),
    }
    with tarfile.open(path, mode) as archive:
        folder = tarfile.TarInfo("vocabulary")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, text in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return path
