"""Tiny models of ELMoForManyLangs with seeded random weights, in the files of that program."""

import json
import zipfile
from pathlib import Path
from typing import Any, Dict, Sequence, Tuple

import numpy as np
import torch
from reference.numpy_bilm import merge_options
from reference.numpy_manylangs import NumpyManyLangs

CHARACTERS = ["<oov>", "<bos>", "<eos>", "<pad>", "<bow>", "<eow>", *"abcdefghijklmnopqrstuvwxyz.<>\u6771\u3000"]
WORDS = ["the", "<oov>", "<pad>", "<bos>", "<eos>", "lamp", "\u6771\u4eac", "\u3000", "New York"]
SENTENCES = [
    ["the", "old", "lamp", "."],
    ["a"],
    ["x" * 70, "the", "\u20acuro", "<oov>"],
    ["\u6771\u4eac", "\u3000", "", "New York"],
    ["<bos>", "the", "<eos>"],
    [],
    ["<S>", "abcdefgh", "abcdefghi", "\ud800"],
]
BASE: Dict[str, Any] = {
    "encoder": {"name": "elmo", "projection_dim": 4, "cell_clip": 3, "proj_clip": 3, "dim": 6, "n_layers": 2},
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "n_highway": 1,
        "filters": [[1, 2], [3, 4]],
        "word_dim": 3,
        "char_dim": 5,
        "max_characters_per_token": 10,
    },
    "dropout": 0.1,
}
Arrays = Dict[str, np.ndarray]

# Architectures by what is special about them: changes of `make_architecture`.
MANYLANGS_KINDS: Dict[str, Dict[str, Any]] = {
    "characters and words": {},
    "characters": {"token_embedder": {"word_dim": 0}},
    "words": {"token_embedder": {"char_dim": 0}},
    "words cut at two characters": {"token_embedder": {"char_dim": 0, "max_characters_per_token": 4}},
    "tanh, no highways": {"token_embedder": {"activation": "tanh", "n_highway": 0}},
    "long words": {"token_embedder": {"max_characters_per_token": 50, "n_highway": 3}},
    "no clips": {"encoder": {"cell_clip": 0, "proj_clip": None, "n_layers": 1}},
    "small clips": {"encoder": {"cell_clip": 0.1, "proj_clip": 0.05, "n_layers": 3}},
    "projection wider than the cell": {"encoder": {"dim": 3}},
    "LSTM over characters": {"token_embedder": {"name": "lstm"}},
    "LSTM over characters alone": {"token_embedder": {"name": "lstm", "word_dim": 0}},
    "plain LSTM": {"encoder": {"name": "lstm", "dim": 5, "n_layers": 3}},
}


def make_architecture(**changes: Any) -> Dict[str, Any]:
    return merge_options(BASE, changes)


def embedder_shapes(architecture: Dict[str, Any]) -> Dict[str, Tuple[int, ...]]:
    """Names and shapes of token_embedder.pkl."""
    settings, width = architecture["token_embedder"], 0
    shapes: Dict[str, Tuple[int, ...]] = {}
    if settings["word_dim"]:
        shapes["word_emb_layer.embedding.weight"] = (len(WORDS), settings["word_dim"])
        width += settings["word_dim"]
    if settings["char_dim"]:
        shapes["char_emb_layer.embedding.weight"] = (len(CHARACTERS), settings["char_dim"])
        n = settings["char_dim"]
        is_cnn = settings["name"] == "cnn"
        more, n = _cnn_shapes(settings) if is_cnn else (_lstm_shapes("char_lstm.", 0, n, n), 2 * n)
        shapes.update(more)
        width += n
    projection = architecture["encoder"]["projection_dim"]
    return {**shapes, "projection.weight": (projection, width), "projection.bias": (projection,)}


def _cnn_shapes(settings: Dict[str, Any]) -> Tuple[Dict[str, Tuple[int, ...]], int]:
    shapes: Dict[str, Tuple[int, ...]] = {}
    for i, (width, n) in enumerate(settings["filters"]):
        shapes.update({f"convolutions.{i}.weight": (n, settings["char_dim"], width), f"convolutions.{i}.bias": (n,)})
    n = sum(n for _, n in settings["filters"])
    for k in range(settings["n_highway"]):
        shapes.update({f"highways._layers.{k}.weight": (2 * n, n), f"highways._layers.{k}.bias": (2 * n,)})
    return shapes, n


def _lstm_shapes(prefix: str, layer: int, input_width: int, width: int) -> Dict[str, Tuple[int, ...]]:
    shapes: Dict[str, Tuple[int, ...]] = {}
    for suffix in ("", "_reverse"):
        shapes[f"{prefix}weight_ih_l{layer}{suffix}"] = (4 * width, input_width)
        shapes[f"{prefix}weight_hh_l{layer}{suffix}"] = (4 * width, width)
        shapes[f"{prefix}bias_ih_l{layer}{suffix}"] = shapes[f"{prefix}bias_hh_l{layer}{suffix}"] = (4 * width,)
    return shapes


def encoder_shapes(architecture: Dict[str, Any]) -> Dict[str, Tuple[int, ...]]:
    """Names and shapes of encoder.pkl."""
    settings = architecture["encoder"]
    p, h = settings["projection_dim"], settings["dim"]
    shapes: Dict[str, Tuple[int, ...]] = {}
    for layer in range(settings["n_layers"]):
        if settings["name"] == "lstm":
            shapes.update(_lstm_shapes("encoder.", layer, 2 * h if layer else p, h))
            continue
        for direction in ("forward", "backward"):
            name = f"{direction}_layer_{layer}."
            shapes[f"{name}input_linearity.weight"] = shapes[f"{name}state_linearity.weight"] = (4 * h, p)
            shapes[f"{name}state_linearity.bias"] = (4 * h,)
            shapes[f"{name}state_projection.weight"] = (p, h)
    if settings["name"] == "lstm":
        shapes.update({"projection.weight": (p, h), "projection.bias": (p,)})
    return shapes


def make_tensors(shapes: Dict[str, Tuple[int, ...]], seed: int) -> Arrays:
    draw = np.random.default_rng(seed)
    return {name: draw.normal(0, 0.4, shape).astype("float32") for name, shape in shapes.items()}


def dictionary(symbols: Sequence[str]) -> str:
    """A .dic; the ideographic space is written as a blank, as the original does."""
    return "".join(f"{' ' if symbol == chr(0x3000) else symbol}\t{i}\n" for i, symbol in enumerate(symbols))


def save_tensors(path: Path, arrays: Arrays, *, legacy: bool = False) -> None:
    state = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    torch.save(state, path, _use_new_zipfile_serialization=not legacy)


def write_manylangs(
    folder: Path, architecture: Dict[str, Any], *, seed: int = 0, legacy: bool = False
) -> NumpyManyLangs:
    """Write the files of a model. RETURNS: the same model in NumPy."""
    folder.mkdir(parents=True, exist_ok=True)
    embedder = make_tensors(embedder_shapes(architecture), seed)
    encoder = make_tensors(encoder_shapes(architecture), seed + 1)
    save_tensors(folder / "token_embedder.pkl", embedder, legacy=legacy)
    save_tensors(folder / "encoder.pkl", encoder, legacy=legacy)
    (folder / "config.json").write_text(json.dumps({"seed": 1, "config_path": "/somewhere/else/network.json"}))
    (folder / "network.json").write_text(json.dumps(architecture))
    (folder / "word.dic").write_text(dictionary(WORDS), encoding="utf8")
    if architecture["token_embedder"]["char_dim"]:
        (folder / "char.dic").write_text(dictionary(CHARACTERS), encoding="utf8")
    ids = [{symbol: i for i, symbol in enumerate(symbols)} for symbols in (CHARACTERS, WORDS)]
    return NumpyManyLangs(architecture, embedder, encoder, *ids)


def write_zip(path: Path, folder: Path, inner: str = "") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, inner + file.name)
    return path
