"""Small biLMs with random but sensible weights in bilm-tf's layout, made on the fly, the same on every machine."""

import json
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence

import h5py
import numpy as np
from reference.numpy_bilm import merge_options

OPTIONS: Dict[str, Any] = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": 8,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 24,
        "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu",
        "filters": [[1, 3], [2, 5], [4, 9]],
        "n_highway": 2,
        "embedding": {"dim": 4},
        "n_characters": 262,
        "max_characters_per_token": 50,
    },
}

WORDS = ["<S>", "</S>", "<UNK>", "the", "bank", "of", "river", "She", "sat", ".", "café", "東京"]

SENTENCES = [
    ["She", "sat", "on", "the", "bank", "of", "the", "river", "."],
    ["東京", "café", "😀", "a" * 70, "ends\ud800here"],
    [],
    ["."],
    ["the", "unseen", "bank"] * 7,
    ["", " ", "<S>", "</S>", "<UNK>"],
]

# Changes to OPTIONS, one dictionary per variant of the format; `...` removes a key.
VARIANTS: Dict[str, Dict[str, Any]] = {
    "plain": {},
    "noproj": {"lstm": {"dim": 12, "projection_dim": 12}},
    "nohighway": {"char_cnn": {"n_highway": 0}},
    "nohighwaykey": {"char_cnn": {"n_highway": ...}},
    "nocnnproj": {"lstm": {"dim": 24, "projection_dim": 17}},
    "noskip": {"lstm": {"use_skip_connections": False, "n_layers": 3}},
    "noskipkey": {"lstm": {"use_skip_connections": ...}},
    "tanh": {"char_cnn": {"activation": "tanh", "n_highway": 1}},
    "1layer": {"lstm": {"n_layers": 1}},
    "1layerkey": {"lstm": {"n_layers": ...}},
    "3layer": {"lstm": {"n_layers": 3}},
    "4layer": {"lstm": {"n_layers": 4}},
    "smallclip": {"lstm": {"cell_clip": 0.5, "proj_clip": 0.2}},
    "noclip": {"lstm": {"cell_clip": None, "proj_clip": None}},
    "noclipkey": {"lstm": {"cell_clip": ..., "proj_clip": ...}},
    "zeroclip": {"lstm": {"cell_clip": 0, "proj_clip": 0}},
    "maxchars7": {"char_cnn": {"max_characters_per_token": 7}},
    "maxchars61": {"char_cnn": {"max_characters_per_token": 61}},
    "n261": {"char_cnn": {"n_characters": 261}},
    "forward": {"bidirectional": False},
    "forward1layer": {"bidirectional": False, "lstm": {"n_layers": 1}},
    "words": {"char_cnn": ...},
    "wordsforward": {"char_cnn": ..., "bidirectional": False, "lstm": {"n_layers": 1}},
}


def make_options(**changes: Any) -> Dict[str, Any]:
    return merge_options(OPTIONS, changes)


def make_arrays(options: Mapping[str, Any], seed: int = 0, n_words: int = len(WORDS)) -> Dict[str, np.ndarray]:
    """float32 arrays by HDF5 name, drawn so that clips are hit now and then and layers have a spread near one."""
    draw = np.random.default_rng(seed).normal
    arrays: Dict[str, np.ndarray] = {}
    width, cell = options["lstm"]["projection_dim"], options["lstm"]["dim"]
    if "char_cnn" in options:
        arrays.update(_char_arrays(options["char_cnn"], width, draw))
    else:
        arrays["embedding"] = draw(0, 1, (n_words, width))
    for direction in range(1 if options.get("bidirectional") is False else 2):
        for layer in range(options["lstm"].get("n_layers", 1)):
            base = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
            inputs = draw(0, 1.4 / width**0.5, (width, 4 * cell))
            recurrent = draw(0, 0.4 / width**0.5, (width, 4 * cell))
            arrays[base + "W_0"] = np.concatenate([inputs, recurrent])
            arrays[base + "B"] = draw(0, 0.4, 4 * cell)
            if width < cell:
                arrays[base + "W_P_0"] = draw(0, 3.0 / cell**0.5, (cell, width))
    return {name: array.astype("float32") for name, array in arrays.items()}


def _char_arrays(options: Mapping[str, Any], width: int, draw: Any) -> Dict[str, np.ndarray]:
    embedding_width = options["embedding"]["dim"]
    arrays = {"char_embed": draw(0, 0.6, (261, embedding_width))}
    for i, (window, n) in enumerate(options["filters"]):
        arrays[f"CNN/W_cnn_{i}"] = draw(0, 0.9 / (window * embedding_width) ** 0.5, (1, window, embedding_width, n))
        arrays[f"CNN/b_cnn_{i}"] = draw(-0.2, 0.3, n)
    n_filters = sum(n for _, n in options["filters"])
    for k in range(options.get("n_highway") or 0):
        for kind, mean in (("carry", -1.0), ("transform", 0.0)):
            arrays[f"CNN_high_{k}/W_{kind}"] = draw(0, n_filters**-0.5, (n_filters, n_filters))
            arrays[f"CNN_high_{k}/b_{kind}"] = draw(mean, 0.3, n_filters)
    if n_filters != width:
        arrays["CNN_proj/W_proj"] = draw(0, 2.0 / n_filters**0.5, (n_filters, width))
        arrays["CNN_proj/b_proj"] = draw(0, 0.2, width)
    return arrays


def make_highways(options: Mapping[str, Any], seed: int = 0) -> Dict[str, np.ndarray]:
    """Highways between the layers, which files of bilm-tf cannot have, under names of our own."""
    draw = np.random.default_rng(seed + 2000).normal
    width = options["lstm"]["projection_dim"]
    arrays: Dict[str, np.ndarray] = {}
    for direction in range(1 if options.get("bidirectional") is False else 2):
        for layer in range(1, options["lstm"]["n_layers"]):
            arrays[f"highway_{direction}_{layer}/W"] = draw(0, width**-0.5, (width, width))
            arrays[f"highway_{direction}_{layer}/b"] = draw(-0.5, 0.5, width)
    return {name: array.astype("float32") for name, array in arrays.items()}


def make_softmax(options: Mapping[str, Any], seed: int = 0, n_words: int = len(WORDS)) -> Dict[str, np.ndarray]:
    draw = np.random.default_rng(seed + 1000).normal
    width = options["lstm"]["projection_dim"]
    weight, bias = draw(0, width**-0.5, (n_words, width)), draw(0, 0.5, n_words)
    return {"softmax/W": weight.astype("float32"), "softmax/b": bias.astype("float32")}


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> Path:
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array)
    return path


def read_arrays(path: Path) -> Dict[str, np.ndarray]:
    arrays: Dict[str, np.ndarray] = {}
    with h5py.File(path, "r") as file:
        file.visititems(lambda name, node: arrays.update({name: node[()]}) if isinstance(node, h5py.Dataset) else None)
    return arrays


def write_model(
    folder: Path, options: Any, arrays: Mapping[str, np.ndarray], vocab: Optional[Sequence[str]] = None
) -> Path:
    """A folder with options.json, weights.hdf5 and maybe vocab.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(options), encoding="utf8")
    write_arrays(folder / "weights.hdf5", arrays)
    if vocab is not None:
        (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in vocab), encoding="utf8")
    return folder
