"""Language models of AllenNLP with PyTorch's LSTM over a character CNN, as far as a biLM can be equal to them.

PyTorch's LSTM has no projection and no clips, and its upper layers read both directions together. So it must be as wide
as its input, and have one layer if it is bidirectional.
"""

import re
import warnings
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np
from torch import from_numpy, nn

from ...bilm.config import UTF8_CHARACTERS, BiLMConfig, CharCNNConfig
from ...bilm.lm_head import SoftmaxHead
from ...encoding.facade import BiLM
from ...errors import Errors, Warnings
from ...text.vocabulary import UNKNOWN, Vocabulary
from ..bilm_tf.layout import state_shapes
from ..limits import find_excess, listed, shorten
from ..parts import as_float32, build_head, build_network, check_vocabulary
from ..tensor_map import Array, Dataset, TensorSlice, find_misfits, import_arrays
from .layout import CHARACTERS, EMBEDDER, allennlp_datasets, gate_slices

OOV, PADDING = "@@UNKNOWN@@", "@@PADDING@@"
EMBEDDING = re.compile(r"_text_field_embedder\.token_embedder_([^.]+)\._embedding\._module\.weight")
LSTM = "_contextualizer._module."
SOFTMAX = "_softmax_loss."
SUFFIXES = ("", "_reverse")


def read_lstm_lm(
    config: Mapping[str, Any], arrays: Mapping[str, Array], words: Optional[List[str]], where: str
) -> BiLM:
    """Read a language model, see `read_language_model`.

    RETURNS (BiLM): The model. Its softmax has the words of the vocabulary; it is left out with WL313 if they lack the
        sentence boundaries or do not fit.
    RAISES (ValueError): EL317 if no biLM is equal to it, EL026 if tensors do not fit the config.
    """
    found = [match[1] for match in map(EMBEDDING.fullmatch, arrays) if match]
    name = found[0] if len(found) == 1 else ""
    characters = _character_block(config, name)
    problems = [] if len(found) == 1 else [f"it has {len(found)} character embedders, should have one"]
    problems += _character_problems(config, characters, name) + _lstm_problems(config["model"])
    if problems:
        raise ValueError(Errors.EL317.format(path=where, n_problems=len(problems), problems=listed(problems)))
    bilm_config = _read_config(config["model"], characters, where)
    own = _renamed(arrays, name, bilm_config)
    table = _datasets(bilm_config)
    misfits = find_misfits({dataset.name: dataset.shape for dataset in table}, own)
    if misfits:
        settings = {"options": "config.json", "n_problems": len(misfits), "problems": listed(misfits)}
        raise ValueError(Errors.EL026.format(path=where, **settings))
    network = build_network(bilm_config, import_arrays(table, own, state_shapes(bilm_config)))
    head, vocabulary = _read_softmax(config["model"], arrays, words, bilm_config.projection_width, where)
    return BiLM(network, vocabulary=vocabulary, head=head, meta={"source_format": "allennlp"})


def _character_block(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    embedders: Any = config["model"].get("text_field_embedder")
    embedders = embedders.get("token_embedders", embedders) if isinstance(embedders, Mapping) else {}
    block = embedders.get(name) if isinstance(embedders, Mapping) else None
    return block if isinstance(block, Mapping) else {}


def _inner(block: Any, *keys: str) -> Mapping[str, Any]:
    for key in keys:
        block = block.get(key) if isinstance(block, Mapping) else None
    return block if isinstance(block, Mapping) else {}


def _character_problems(config: Mapping[str, Any], block: Mapping[str, Any], name: str) -> List[str]:
    encoder = _inner(block, "encoder")
    indexer = _inner(config, "dataset_reader", "token_indexers", name).get("type")
    checks = [
        ("type of the embedder", block.get("type"), ("character_encoding",)),
        ("type of its encoder", encoder.get("type"), ("cnn-highway",)),
        ("projection_location", encoder.get("projection_location", "after_highway"), ("after_highway",)),
        ("do_layer_norm", encoder.get("do_layer_norm", False), (False,)),
        ("activation", encoder.get("activation", "relu"), ("relu", "tanh")),
        ("type of the token indexer", indexer, ("elmo_characters",)),
    ]
    return [_unlike(what, found, wanted) for what, found, wanted in checks if found not in wanted]


def _lstm_problems(model: Mapping[str, Any]) -> List[str]:
    lstm = _inner(model, "contextualizer")
    n_layers, is_both = lstm.get("num_layers", 1), lstm.get("bidirectional", False)
    sizes = [lstm.get("hidden_size"), lstm.get("input_size"), n_layers]
    problems = []
    if not all(type(size) is int and size >= 1 for size in sizes):
        problems.append(f"hidden_size, input_size and num_layers are {shorten(str(sizes), 80)}, should be integers")
    elif sizes[0] != sizes[1]:
        problems.append(f"hidden_size is {sizes[0]}, should be input_size ({sizes[1]}): a biLM has one width")
    if is_both is not False and n_layers != 1:
        problems.append(f"num_layers is {n_layers!r}, should be 1: upper layers read both directions together")
    if lstm.get("bias", True) is not True:
        problems.append(_unlike("bias", lstm["bias"], (True,)))
    return problems


def _unlike(what: str, found: Any, wanted: Tuple[Any, ...]) -> str:
    return f"{what} is {shorten(repr(found), 80)}, should be {' or '.join(map(repr, wanted))}"


def _read_config(model: Mapping[str, Any], characters: Mapping[str, Any], where: str) -> BiLMConfig:
    """RAISES (ValueError): EL023 for settings that are not valid."""
    lstm, encoder = _inner(model, "contextualizer"), _inner(characters, "encoder")
    try:
        char_cnn = CharCNNConfig.from_dict(
            {
                "embedding_width": encoder.get("embedding_dim"),
                "filters": encoder.get("filters"),
                "activation": encoder.get("activation", "relu"),
                "n_highway": encoder.get("num_highway"),
                "always_project": sum(n for _, n in encoder["filters"]) == lstm["hidden_size"],
            }
        )
        config = BiLMConfig(
            char_cnn=char_cnn,
            n_layers=lstm.get("num_layers", 1),
            cell_width=lstm["hidden_size"],
            projection_width=lstm["hidden_size"],
            cell_clip=None,
            projection_clip=None,
            has_skip=False,
            directions="both" if lstm.get("bidirectional") else "forward",
        )
        problems = find_excess(config)
    except (ValueError, TypeError, KeyError) as error:
        problems = [str(error).rstrip(".")]
    if problems:
        raise ValueError(Errors.EL023.format(path=where, problems=shorten("; ".join(problems))))
    return config


def _renamed(arrays: Mapping[str, Array], name: str, config: BiLMConfig) -> Dict[str, Array]:
    """The tensors of the CNN by their names in an `Elmo`, those of the LSTM by their own, its two biases summed."""
    base = f"_text_field_embedder.token_embedder_{name}."
    own = {key: array for key, array in arrays.items() if key.startswith((base, LSTM))}
    renamed = {key.replace(f"{base}_encoder._module.", EMBEDDER): array for key, array in own.items()}
    table = renamed.pop(f"{base}_embedding._module.weight")
    renamed[CHARACTERS] = table[1:] if len(table.shape) == 2 and len(table) == UTF8_CHARACTERS + 2 else table
    for key in [key for key in renamed if key.startswith(f"{LSTM}bias_ih_")]:
        other = key.replace("bias_ih_", "bias_hh_")
        if other in renamed and renamed[other].shape == renamed[key].shape:
            renamed[key] = renamed[key] + renamed.pop(other)
    return renamed


def _datasets(config: BiLMConfig) -> List[Dataset]:
    table = [dataset for dataset in allennlp_datasets(config) if dataset.name.startswith(EMBEDDER)]
    p, h = config.projection_width, config.cell_width
    for layer in range(config.n_layers):
        for direction in range(config.n_directions):
            ending, ours = f"l{layer}{SUFFIXES[direction]}", f"encoder.layers.{layer}."
            for name, key in (("weight_ih_", "input_weight"), ("weight_hh_", "recurrent_weight")):
                slices: Tuple[TensorSlice, ...] = gate_slices(ours + key, direction, h, has_columns=True)
                table.append(Dataset(f"{LSTM}{name}{ending}", (4 * h, p), slices))
            table.append(Dataset(f"{LSTM}bias_ih_{ending}", (4 * h,), gate_slices(ours + "bias", direction, h)))
    return table


def _read_softmax(
    model: Mapping[str, Any], arrays: Mapping[str, Array], words: Optional[List[str]], width: int, where: str
) -> Tuple[Optional[SoftmaxHead], Optional[Vocabulary]]:
    """The softmax has a row for each word but the padding, and one more that is never a target."""
    names = (f"{SOFTMAX}softmax_w", f"{SOFTMAX}softmax_b")
    weight, bias = (arrays.get(name, arrays.get(f"{name}.weight")) for name in names)
    if weight is None or bias is None:
        return None, None
    bias = bias.reshape(-1)
    # `SoftmaxLoss` has (P, V), `SampledSoftmaxLoss` (V, P)
    rows = weight.T if model.get("num_samples") is None and names[0] in arrays else weight
    try:
        vocabulary = Vocabulary([*(UNKNOWN if word == OOV else word for word in words or []), PADDING])
        check_vocabulary(vocabulary, {"the softmax": len(bias)})
        misfits = find_misfits({"softmax_w": (len(bias), width)}, {"softmax_w": rows})
        if misfits:
            raise ValueError("; ".join(misfits))
    except ValueError as error:
        warnings.warn(Warnings.WL313.format(path=where, reason=error), stacklevel=2)
        return None, None
    return build_head(nn.Parameter(from_numpy(as_float32(rows))), as_float32(np.asarray(bias))), vocabulary
