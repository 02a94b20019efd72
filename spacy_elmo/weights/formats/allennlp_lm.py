"""Archives of AllenNLP's `language_model` and `bidirectional-language-model` as biLMs, over a character CNN.

- `bidirectional_language_model_transformer` (Peters et al. 2018b; `transformer-elmo-2019.01.10.tar.gz`): layer 0 is the
  word vector twice, without positions, and layer k is `[forward_k; backward_k]`, as in the
  `bidirectional_lm_token_embedder` of allennlp-models.
- PyTorch's `lstm`, as far as a biLM can be equal to it. It has no projection and no clips, and its upper layers read
  both directions together. So it must be as wide as its input, and have one layer if it is bidirectional.
"""

import warnings
from dataclasses import replace
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ...bilm.config import BiLMConfig, SettingsReader
from ...bilm.network import SoftmaxHead
from ...bilm.transformer import sinusoids, transformer_of
from ...errors import Warnings
from ...inference.bilm import BiLM
from ...settings import Flag, Whole
from ...text.words import UNKNOWN, Vocabulary
from ...util import DIRECTIONS, listed, shorten
from ..archive import Array, Shape
from ..meta import FORMAT_KEY
from ..tensor_map import (
    TRANSPOSED,
    Dataset,
    TensorSlice,
    build_softmax,
    check_vocabulary,
    find_mismatches,
    load_network,
)
from .allennlp_names import char_cnn_datasets, gate_slices

MODEL_TYPES = ("language_model", "bidirectional-language-model")
N_HEADS = 8  # fixed in the code of AllenNLP
MAX_POSITIONS = 5000  # the same
N_CHARACTERS = 262  # bytes, special characters and the mask
EMBEDDERS = "model.text_field_embedder.token_embedders"
POSITIONS = "_contextualizer._position.positional_encoding"
UNUSED = "_last_average_loss"  # a buffer that AllenNLP keeps for old archives
LSTM_PREFIX = "_contextualizer._module."
DIRECTION_SUFFIXES = ("", "_reverse")
FIRST_BIAS, SECOND_BIAS = f"{LSTM_PREFIX}bias_ih_", f"{LSTM_PREFIX}bias_hh_"
SOFTMAX = "_softmax_loss."
OOV, PADDING = "@@UNKNOWN@@", "@@PADDING@@"
# Parameters; or embeddings with sparse gradients, whose bias is a column.
WEIGHTS = (f"{SOFTMAX}softmax_w", f"{SOFTMAX}softmax_w.weight")
CONTEXTUALIZER = "_contextualizer."


def read_lm_config(config: Mapping[str, Any]) -> Tuple[Optional[BiLMConfig], str, bool, List[str]]:
    """The settings in the config.json of an archive with a contextualizer of `CONTEXTUALIZERS`: the config, None if
    there are problems; the name of the token embedder with the characters; whether the softmax was sampled in training,
    which decides how it is stored; all problems.
    """
    reader = SettingsReader(config)
    _take_choice(reader, "model.type", MODEL_TYPES)
    kind = _take_choice(reader, "model.contextualizer.type", tuple(CONTEXTUALIZERS))
    record = CONTEXTUALIZERS[kind](reader) if kind in CONTEXTUALIZERS else {}
    embedder = _find_embedder(reader)
    if embedder:
        record["char_cnn"] = _read_characters(reader, f"{EMBEDDERS}.{embedder}", record.get("projection_width"))
    is_sampled = reader.take("model.num_samples", Whole, None) is not None
    bilm_config = reader.build(record) if embedder else None
    if (
        bilm_config is not None and bilm_config.char_cnn is not None and not bilm_config.has_cnn_projection
    ):  # AllenNLP always projects
        bilm_config = replace(bilm_config, char_cnn=replace(bilm_config.char_cnn, always_project=True))
    return bilm_config, embedder, is_sampled, reader.describe()


def _read_transformer(reader: SettingsReader) -> Dict[str, Any]:
    if reader.take("model.bidirectional", Flag, True) is False:
        reader.reject("model.bidirectional", False, "true")
    base = "model.contextualizer."
    record = reader.read({"n_layers": (f"{base}num_layers", ...), "projection_width": (f"{base}input_dim", ...)})
    sizes = reader.read({"feedforward_width": (f"{base}hidden_dim", ...)})
    fixed = {"n_heads": N_HEADS, "max_positions": MAX_POSITIONS}
    return {**record, "encoder": "transformer", "transformer": {**sizes, **fixed}}


def _read_lstm(reader: SettingsReader) -> Dict[str, Any]:
    base = "model.contextualizer."
    sizes = {"projection_width": (f"{base}input_size", ...), "cell_width": (f"{base}hidden_size", ...)}
    record = reader.read({**sizes, "n_layers": (f"{base}num_layers", 1)})
    is_both = reader.take(f"{base}bidirectional", Flag, False)
    if record["cell_width"] != record["projection_width"]:
        expected = f"input_size ({record['projection_width']}): a biLM has one width"
        reader.reject(f"{base}hidden_size", record["cell_width"], expected)
    if is_both and record["n_layers"] != 1:
        reader.reject(f"{base}num_layers", record["n_layers"], "1: upper layers read both directions together")
    if reader.take(f"{base}bias", Flag, True) is False:
        reader.reject(f"{base}bias", False, "true")
    fixed = {"cell_clip": None, "projection_clip": None, "has_skip": False}
    return {**record, **fixed, "directions": "both" if is_both else "forward"}


# By `model.contextualizer.type`: the settings of a `BiLMConfig` but its `char_cnn`.
CONTEXTUALIZERS: Dict[str, Callable[[SettingsReader], Dict[str, Any]]] = {
    "lstm": _read_lstm,
    "bidirectional_language_model_transformer": _read_transformer,
}


def _take_choice(reader: SettingsReader, name: str, known: Tuple[str, ...], default: Any = ...) -> Any:
    value = reader.take(name, str, default)
    if value is not None and value not in known:
        reader.reject(name, value, " or ".join(f"'{kind}'" for kind in known))
    return value


def _find_embedder(reader: SettingsReader) -> str:
    """The only token embedder that is not empty."""
    blocks = reader.take(EMBEDDERS, Dict[str, Any]) or {}
    named = [str(name) for name in blocks if reader.take(f"{EMBEDDERS}.{name}.type", str, None) != "empty"]
    if len(named) != 1 or "." in named[0]:
        reader.reject(EMBEDDERS, named, "one embedder that is not 'empty', without a dot in its name")
        return ""
    _check_indexer(reader, named[0])
    return named[0]


def _check_indexer(reader: SettingsReader, name: str) -> None:
    """Characters have to be bytes. Without the indexer, the number of rows of the embedding is checked."""
    for path in ("dataset_reader.token_indexers", "dataset_reader.base_reader.token_indexers"):
        if reader.has(f"{path}.{name}"):
            _take_choice(reader, f"{path}.{name}.type", ("elmo_characters",))
            added = reader.take(f"{path}.{name}.tokens_to_add", Dict[str, Any], None)
            if added:
                reader.reject(f"{path}.{name}.tokens_to_add", dict(added), "left out: such tokens cannot be read")


def _read_characters(reader: SettingsReader, base: str, width: Any) -> Dict[str, Any]:
    _take_choice(reader, f"{base}.type", ("character_encoding",))
    _take_choice(reader, f"{base}.encoder.type", ("cnn-highway",))
    n_rows = reader.take(f"{base}.embedding.num_embeddings", Whole)
    if n_rows is not None and n_rows != N_CHARACTERS:
        expected = f"{N_CHARACTERS}, for the bytes of 'elmo_characters'; vocabularies of characters cannot be read"
        reader.reject(f"{base}.embedding.num_embeddings", n_rows, expected)
    projected = reader.take(f"{base}.encoder.projection_dim", Whole)
    if projected and width and projected != width:
        reader.reject(f"{base}.encoder.projection_dim", projected, f"{width}, the width of the contextualizer")
    return reader.read(
        {
            "embedding_width": (f"{base}.embedding.embedding_dim", ...),
            "filters": (f"{base}.encoder.filters", ...),
            "activation": (f"{base}.encoder.activation", "relu"),
            "n_highway": (f"{base}.encoder.num_highway", ...),
            "projection": (f"{base}.encoder.projection_location", "after_highway"),
            "has_layer_norm": (f"{base}.encoder.do_layer_norm", False),
        }
    )


def _language_model_datasets(config: BiLMConfig, embedder: str) -> List[Dataset]:
    """All tensors but the softmax, the positions, unused buffers, and the second bias of an LSTM, see `_sum_biases`."""
    width, table = config.projection_width, []
    if config.char_cnn is not None:
        base = f"_text_field_embedder.token_embedder_{embedder}."
        encoder = f"{base}_encoder._module."
        table = char_cnn_datasets(config.char_cnn, width, f"{base}_embedding._module.weight", encoder)
        if config.char_cnn.has_layer_norm:
            table += _norm(f"{encoder}_layer_norm.", "char_cnn.norm.", width, ())
    return table + (_transformer(config) if config.encoder == "transformer" else _lstm(config))


def _lstm(config: BiLMConfig) -> List[Dataset]:
    p, h = config.projection_width, config.cell_width
    table = []
    for layer in range(config.n_layers):
        for k in range(config.n_directions):
            ending, ours = f"l{layer}{DIRECTION_SUFFIXES[k]}", f"encoder.layers.{layer}."
            for name, key in (("weight_ih_", "input_weight"), ("weight_hh_", "recurrent_weight")):
                slices = gate_slices(ours + key, k, h, has_columns=True)
                table.append(Dataset(f"{LSTM_PREFIX}{name}{ending}", (4 * h, p), slices))
            table.append(Dataset(FIRST_BIAS + ending, (4 * h,), gate_slices(ours + "bias", k, h)))
    return table


def _sum_biases(arrays: Mapping[str, Array]) -> Dict[str, Array]:
    """The same tensors, the second bias of each LSTM added to the first."""
    summed = {name: array for name, array in arrays.items() if not name.startswith(SECOND_BIAS)}
    for name in summed:
        if name.startswith(FIRST_BIAS):
            summed[name] = arrays[name] + arrays[name.replace(FIRST_BIAS, SECOND_BIAS)]
    return summed


def _transformer(config: BiLMConfig) -> List[Dataset]:
    table = []
    for k, direction in enumerate(DIRECTIONS):
        stack = f"_contextualizer._{direction}_transformer."
        for layer in range(config.n_layers):
            table += _layer(config, f"{stack}layers.{layer}.", f"encoder.blocks.{layer}.", k)
        table += _norm(f"{stack}norm.", "encoder.norm.", config.projection_width, (k,))
    return table


def _layer(config: BiLMConfig, theirs: str, ours: str, k: int) -> List[Dataset]:
    p, hidden = config.projection_width, transformer_of(config).feedforward_width
    table = []
    for i in range(3):  # queries, keys, values
        columns = slice(i * p, (i + 1) * p)
        weight = TensorSlice(ours + "input_weight", state_index=(k, slice(None), columns), transform=TRANSPOSED)
        table.append(Dataset(f"{theirs}self_attn.linears.{i}.weight", (p, p), (weight,)))
        bias = TensorSlice(ours + "input_bias", state_index=(k, columns))
        table.append(Dataset(f"{theirs}self_attn.linears.{i}.bias", (p,), (bias,)))
    for name, ours_name, n_in, n_out in (
        ("self_attn.linears.3", "output", p, p),
        ("feed_forward.w_1", "up", p, hidden),
        ("feed_forward.w_2", "down", hidden, p),
    ):
        weight = TensorSlice(f"{ours}{ours_name}_weight", state_index=(k,), transform=TRANSPOSED)
        table.append(Dataset(f"{theirs}{name}.weight", (n_out, n_in), (weight,)))
        table.append(
            Dataset(f"{theirs}{name}.bias", (n_out,), (TensorSlice(f"{ours}{ours_name}_bias", state_index=(k,)),))
        )
    for i in range(2):
        table += _norm(f"{theirs}sublayer.{i}.norm.", f"{ours}norm_", p, (k, i))
    return table


def _norm(theirs: str, ours: str, width: int, at: "tuple[int, ...]") -> List[Dataset]:
    names = (("gamma", "weight"), ("beta", "bias"))
    return [Dataset(theirs + name, (width,), (TensorSlice(ours + key, state_index=at),)) for name, key in names]


def _are_sinusoids(stored: Array, positions: Array) -> bool:
    """Whether the positions in a file, (1, n, P), are equal to ours, (n, P), to within the rounding of large angles."""
    return stored.shape == (1, *positions.shape) and bool(np.allclose(stored[0], positions, rtol=0, atol=2e-3))


def lm_softmax_shapes(arrays: Mapping[str, Array], width: int, *, is_sampled: bool) -> Dict[str, Shape]:
    """Expected shapes by name, empty without a softmax. Rows are words (V, P) in `SampledSoftmaxLoss`, columns in
    `SoftmaxLoss`.
    """
    if not any(name.startswith(SOFTMAX) for name in arrays):
        return {}
    weight = _weight_name(arrays)
    shape = arrays[weight].shape if weight in arrays else ()
    n_rows = (shape[0] if is_sampled else shape[-1]) if shape else 0
    bias_shape = (n_rows, 1) if weight.endswith(".weight") else (n_rows,)
    return {weight: (n_rows, width) if is_sampled else (width, n_rows), _bias_name(weight): bias_shape}


def _read_softmax(
    arrays: Mapping[str, Array], words: Optional[Sequence[str]], where: str, *, is_sampled: bool
) -> Tuple[Optional[SoftmaxHead], Optional[Vocabulary]]:
    """Read the softmax and its vocabulary from tensors of the shapes above and from the words in the order of their
    ids. Rows are the ids less one, since padding has id 0. None without a softmax, and with WL313 where the words lack
    the sentence boundaries or do not fit.

    AllenNLP counts padding as a word, too: the softmax has one more row, the last, which is never a target but is
    included in the normalization. It stays, so that losses are equal to AllenNLP's.
    """
    name = _weight_name(arrays)
    if name not in arrays:
        return None, None
    weight = arrays[name] if is_sampled else arrays[name].T
    bias = arrays[_bias_name(name)].reshape(-1)
    try:
        vocabulary = Vocabulary([*(UNKNOWN if word == OOV else word for word in words or []), PADDING])
        check_vocabulary(vocabulary, {"the softmax": len(bias)}, where)
    except ValueError as error:
        warnings.warn(Warnings.WL313.format(path=where, reason=error), stacklevel=2)
        return None, None
    return build_softmax(weight, bias), vocabulary


def _weight_name(arrays: Mapping[str, Array]) -> str:
    return next((name for name in WEIGHTS if name in arrays), WEIGHTS[0])


def _bias_name(weight: str) -> str:
    return weight.replace("softmax_w", "softmax_b")


def is_language_model(names: Iterable[str]) -> bool:
    """Whether a state dict with these names has a language model: a contextualizer over an embedder."""
    return any(name.startswith(CONTEXTUALIZER) for name in names)


def read_language_model(config: Any, arrays: Mapping[str, Array], words: Optional[List[str]], where: str) -> BiLM:
    """Read a language model of AllenNLP as a biLM, float32, with its softmax, see `_read_softmax`.

    config (Any), arrays (Mapping[str, Array]): The config of the archive, and its state dict.
    words (Optional[List[str]]): Its vocabulary without padding, in the order of the ids.
    where (str): Path of the state dict, for messages.
    RAISES (ValueError): If the contextualizer cannot be read, with all problems of config and tensors.
    """
    kind = config
    for key in ("model", "contextualizer", "type"):
        kind = kind.get(key) if isinstance(kind, Mapping) else None
    if not isinstance(kind, str) or kind not in CONTEXTUALIZERS:
        stated = "no config.json with model.contextualizer.type" if kind is None else shorten(repr(kind), 80)
        known = ", ".join(CONTEXTUALIZERS)
        raise ValueError(
            f"'{where}' is a language model of AllenNLP whose contextualizer cannot be read: {stated}, should be one "
            f"of: {known}. Choose a model with one of these, and put its config.json next to it."
        )
    settings, embedder, is_sampled, problems = read_lm_config(config)
    table = [] if settings is None else _language_model_datasets(settings, embedder)
    if settings is not None:
        expected = {dataset.name: dataset.shape for dataset in table}
        expected.update({name.replace(FIRST_BIAS, SECOND_BIAS): shape for name, shape in expected.items()})
        expected.update(lm_softmax_shapes(arrays, settings.projection_width, is_sampled=is_sampled))
        problems = find_mismatches(expected, {name: arrays[name] for name in arrays if name not in (POSITIONS, UNUSED)})
        positions = sinusoids(MAX_POSITIONS, settings.projection_width).numpy()
        if POSITIONS in arrays and not _are_sinusoids(arrays[POSITIONS], positions):
            problems.append(f"{POSITIONS} has other values than sines and cosines, which cannot be read")
    if problems or settings is None:
        raise ValueError(
            f"No biLM is equal to the language model of AllenNLP in '{where}', {len(problems)} "
            f"problem(s):{listed(problems)}\nSupported are archives of `language_model` as saved, with "
            "`bidirectional_language_model_transformer`, or with a `lstm` as wide as its input, over "
            "`elmo_characters`."
        )
    network = load_network(settings, table, _sum_biases(arrays))
    head, vocabulary = _read_softmax(arrays, words, where, is_sampled=is_sampled)
    return BiLM(network, vocabulary=vocabulary, head=head, meta={FORMAT_KEY: "allennlp"})
