"""The names of tensors in AllenNLP's modules, and their positions in our state dict.

ELMoForManyLangs has copies of the LSTM cell and the highways. Their gates are in the order i, f, j (candidate), o, ours
i, j, f, o. Their forget bias includes the 1.0 that ours leaves out. The gate of their highways carries where ours
transforms: sigmoid(-x) = 1 - sigmoid(x), so it has the opposite sign.
"""

from typing import Any, Iterable, List, Optional, Tuple

from ...bilm.config import BiLMConfig, CharCNNConfig
from ...util import DIRECTIONS
from ..tensor_map import NEGATED, TRANSPOSED, UNCHANGED, WITHOUT_FORGET_BIAS, Dataset, TensorSlice, whole

# In AllenNLP's `_ElmoBiLm`.
EMBEDDER, LSTM, CACHE = "_token_embedder.", "_elmo_lstm.", "_word_embedding."
CHARACTERS = f"{EMBEDDER}_char_embedding_weights"
GATES = (0, 2, 1, 3)  # position of i, f, j, o in our order
FORGET = 1


def allennlp_datasets(config: BiLMConfig) -> List[Dataset]:
    """All tensors of a biLM that AllenNLP can have, by their names in it."""
    table: List[Dataset] = []
    if config.char_cnn is not None:
        table = char_cnn_datasets(config.char_cnn, config.projection_width, CHARACTERS, EMBEDDER)
    return [*table, *allennlp_lstm_datasets(config, LSTM)]


def allennlp_lstm_datasets(config: BiLMConfig, prefix: str, input_width: Optional[int] = None) -> List[Dataset]:
    """The tensors of LSTMs, whose names have a prefix. The width of the input of the first layer is P by default."""
    table: List[Dataset] = []
    for layer in range(config.n_layers):
        for direction in range(config.n_directions):
            base, ours = f"{prefix}{DIRECTIONS[direction]}_layer_{layer}.", f"encoder.layers.{layer}."
            widths = config.projection_width, config.cell_width, None if layer else input_width
            table += cell_datasets(base, ours, direction, *widths)
    return table


def highway_datasets(base: str, ours: str, width: int) -> List[Dataset]:
    """The weight (2 * width, width) and the bias (2 * width,) of a highway layer, by its prefixes in the file and in
    our state dict.
    """
    halves = ((slice(None, width), UNCHANGED), (slice(width, None), NEGATED))
    table = []
    for name, shape in (("weight", (2 * width, width)), ("bias", (2 * width,))):
        slices = (
            TensorSlice(ours + name, state_index=(rows,), file_index=(rows,), transform=change)
            for rows, change in halves
        )
        table.append(Dataset(base + name, shape, tuple(slices)))
    return table


def filter_datasets(base: str, ours: str, filters: Iterable[Tuple[int, int]], width: int) -> List[Dataset]:
    """Weights (n, E, w) and biases (n,) of convolutions; their numbers follow the prefixes in the file and in our state
    dict.
    """
    table = []
    for i, (window, n) in enumerate(filters):
        table.append(whole(f"{base}{i}.weight", (n, width, window), f"{ours}{i}.weight"))
        table.append(whole(f"{base}{i}.bias", (n,), f"{ours}{i}.bias"))
    return table


def char_cnn_datasets(config: CharCNNConfig, width: int, table: str, base: str) -> List[Dataset]:
    """Character embeddings, convolutions, highways and projection of AllenNLP; `table` is the name of the character
    embeddings in the file, `base` the prefix of all others.
    """
    shape = (config.n_characters + 1, config.embedding_width)
    datasets = [whole(table, shape, "char_cnn.embedding")]
    datasets += filter_datasets(f"{base}char_conv_", "char_cnn.filters.", config.filters, config.embedding_width)
    for k in range(config.n_highway):
        n_rows = config.highway_width(width)
        datasets += highway_datasets(f"{base}_highways._layers.{k}.", f"char_cnn.highways.{k}.", n_rows)
    datasets.append(whole(f"{base}_projection.weight", (width, config.n_filters), "char_cnn.projection.weight"))
    return [*datasets, whole(f"{base}_projection.bias", (width,), "char_cnn.projection.bias")]


def cell_datasets(
    base: str, ours: str, direction: int, width: int, cell_width: int, input_width: Optional[int] = None
) -> List[Dataset]:
    """The two weights (4H, P), the bias (4H,) and the projection (P, H) of an LSTM layer of one direction (0 forward, 1
    backward), by their prefixes in the file and in our state dict; the width of its input is P by default.
    """
    table = []
    inputs = ("input_linearity", "input_weight", width if input_width is None else input_width)
    for name, key, n_in in (inputs, ("state_linearity", "recurrent_weight", width)):
        slices = gate_slices(ours + key, direction, cell_width, has_columns=True)
        table.append(Dataset(f"{base}{name}.weight", (4 * cell_width, n_in), slices))
    bias = gate_slices(ours + "bias", direction, cell_width)
    table.append(Dataset(f"{base}state_linearity.bias", (4 * cell_width,), bias))
    projection = TensorSlice(ours + "projection_weight", state_index=(direction,), transform=TRANSPOSED)
    return [*table, Dataset(f"{base}state_projection.weight", (width, cell_width), (projection,))]


def gate_slices(key: str, direction: int, h: int, *, has_columns: bool = False) -> Tuple[TensorSlice, ...]:
    """The four gates of a tensor of PyTorch's LSTMs (i, f, j, o) in ours: of a matrix (4H, P), ours (P, 4H), or of a
    bias (4H,).
    """
    slices = []
    for gate, our_gate in enumerate(GATES):
        columns = slice(our_gate * h, (our_gate + 1) * h)
        at: Tuple[Any, ...] = (direction, slice(None), columns) if has_columns else (direction, columns)
        transform = TRANSPOSED if has_columns else WITHOUT_FORGET_BIAS if gate == FORGET else UNCHANGED
        slices.append(
            TensorSlice(key, state_index=at, file_index=(slice(gate * h, (gate + 1) * h),), transform=transform)
        )
    return tuple(slices)
