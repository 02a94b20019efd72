"""`ElmoLstm` of AllenNLP: the LSTM layers of both directions, with a state that is carried from batch to batch.

Parameters have the values, names and order of AllenNLP; what is computed with has ours:

| | AllenNLP | here |
| --- | --- | --- |
| gates | rows i, f, j (candidate), o | columns i, j, f, o |
| forget bias | 1 is part of the bias | 1 is added at run time |
| directions | a module each | first dimension |
"""

from functools import lru_cache
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from ...bilm.config import BiLMConfig
from ...bilm.lstm import FORGET_BIAS, LSTMStack, full_bias, run_recurrence
from ...bilm.network import BiLMNetwork
from ...bilm.state import BiLMState, LSTMState, State
from ...inference.runner import Runner, make_runner
from ...inference.runtime import isolated
from ...nn.inputs import pad_rows
from ...nn.modules import parameter_dtype
from ...util import DIRECTIONS
from ...weights.archive import File, read_hdf5
from ...weights.formats import bilm_tf
from ...weights.formats.allennlp_names import LSTM, allennlp_lstm_datasets
from ...weights.tensor_map import (
    Dataset,
    export_arrays,
    find_mismatches,
    import_arrays,
    import_tensors,
    raise_mismatches,
)
from ..common import (
    ConfigurationError,
    Derived,
    DerivingModule,
    PathLike,
    are_parameters,
    check_file,
    current_weights,
    invalid,
    run_sequences,
)
from .characters import PADDING, export_weights

CLOSED_GATE = 1e4  # pre-activation of a gate whose sigmoid is exactly 0 (negative) or 1
# Tokens of a batch with its padding, up to which padding costs less than the steps of several batches.
PADDED_TOKENS = 2**13


class Cell(nn.Module):
    """Parameters of one layer of one direction, whose inputs have a width of their own."""

    def __init__(self, input_size: int, config: BiLMConfig) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.cell_size = input_size, config.projection_width, config.cell_width
        dtype = parameter_dtype()
        self.input_linearity = nn.Linear(input_size, 4 * self.cell_size, bias=False, dtype=dtype)
        self.state_linearity = nn.Linear(self.hidden_size, 4 * self.cell_size, bias=True, dtype=dtype)
        self.state_projection = nn.Linear(self.cell_size, self.hidden_size, bias=False, dtype=dtype)
        with torch.no_grad():
            self.state_linearity.bias.zero_()
            self.state_linearity.bias[self.cell_size : 2 * self.cell_size] = FORGET_BIAS


class ElmoLstm(DerivingModule):
    """Every row of a batch begins with the state that this row of the batch before ended with.

    input_size (int): Width of the inputs.
    hidden_size (int): P.
    cell_size (int): H, above P.
    num_layers (int): L.
    requires_grad (bool): Train the weights. Gradients do not go back beyond the batch.
    recurrent_dropout_probability (float): Only 0 is supported; pretrained models were made without.
    memory_cell_clip_value (Optional[float]), state_projection_clip_value (Optional[float]): Largest absolute values;
        None or 0 for no clip.
    RAISES (ValueError): For sizes that do not fit, and for a recurrent dropout.
    """

    @isolated
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        cell_size: int,
        num_layers: int,
        requires_grad: bool = False,
        recurrent_dropout_probability: float = 0.0,
        memory_cell_clip_value: Optional[float] = None,
        state_projection_clip_value: Optional[float] = None,
    ) -> None:
        super().__init__()
        if recurrent_dropout_probability:
            raise invalid("recurrent_dropout_probability", recurrent_dropout_probability, "0")
        config = BiLMConfig(
            n_words=1,  # not used: the inputs are vectors
            n_layers=num_layers,
            cell_width=cell_size,
            projection_width=hidden_size,
            cell_clip=memory_cell_clip_value or None,
            projection_clip=state_projection_clip_value or None,
        )
        self._init_from(config, input_size, requires_grad)

    @classmethod
    @isolated
    def from_network(cls, network: BiLMNetwork, requires_grad: bool = False) -> "ElmoLstm":
        """RETURNS (ElmoLstm): With a copy of the weights of the network."""
        module = cls.__new__(cls)
        nn.Module.__init__(module)
        with torch.device("meta"):
            module._init_from(network.config, network.config.projection_width, requires_grad)
        module.load_state_dict(export_weights(network, LSTM), assign=True)
        module.requires_grad_(requires_grad)
        return module

    def _init_from(self, config: BiLMConfig, input_size: int, requires_grad: bool) -> None:
        self.config, self.input_size, self.requires_grad = config, input_size, requires_grad
        self.hidden_size, self.cell_size, self.num_layers = config.projection_width, config.cell_width, config.n_layers
        self.stateful = True
        self._states: Optional[Tuple[Tensor, Tensor]] = None  # (L, rows, 2P) and (L, rows, 2H)
        self._derived: Derived[Runner] = Derived()
        for k in range(config.n_layers):
            for name in DIRECTIONS:
                self.add_module(f"{name}_layer_{k}", Cell(self.hidden_size if k else input_size, config))
        self.requires_grad_(requires_grad)

    @property
    def forward_layers(self) -> List[nn.Module]:
        """RETURNS (List[nn.Module]): The layers of the forward direction."""
        return [self.get_submodule(f"forward_layer_{k}") for k in range(self.num_layers)]

    @property
    def backward_layers(self) -> List[nn.Module]:
        """RETURNS (List[nn.Module]): The layers of the backward direction."""
        return [self.get_submodule(f"backward_layer_{k}") for k in range(self.num_layers)]

    @isolated
    def load_weights(self, weight_file: PathLike) -> None:
        """Replace all weights by the weights of a file. The state is kept.

        weight_file (PathLike): HDF5 file of bilm-tf or AllenNLP.
        RAISES (ValueError): For a file that is missing or cannot be read; EL026 if its LSTM has other sizes.
        """
        path = check_file("weight_file", weight_file)
        self.load_state_dict(_read_cells(path, self.input_size, self.config))
        self.requires_grad_(self.requires_grad)

    @isolated
    def reset_states(self, mask: Optional[Tensor] = None) -> None:
        """mask (Optional[Tensor]): Shape (rows,), True for rows whose state becomes zero; None for all.
        RAISES (ConfigurationError): For another number of rows.
        """
        if mask is None:
            self._states = None
            return
        expected = "(0,)" if self._states is None else f"({self._states[0].shape[1]},)"
        if self._states is None or mask.dim() != 1 or len(mask) != self._states[0].shape[1]:
            raise ConfigurationError(
                f"The mask of `reset_states` has shape {tuple(mask.shape)}, but should have {expected}: one truth "
                "value for each row of the state."
            )
        keep = (mask == 0).view(1, -1, 1)
        h, c = self._states
        self._states = h * keep, c * keep

    @isolated
    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """inputs (Tensor): Shape (B, T, P).
        mask (Tensor): Shape (B, T), True for the first elements of each row; a row may have none.
        RETURNS (Tensor): Shape (L, B, T, 2P), zeros for padding.
        """
        self.warn_of_hooks()
        index = torch.arange(mask.numel(), device=mask.device).view(mask.shape).masked_fill(mask == 0, PADDING)
        return pad_rows(self.encode(inputs.flatten(0, 1), index), index >= 0)

    def encode(self, table: Tensor, index: Tensor) -> Tensor:
        """Compute the layers without padding: from vectors of distinct words (U, P) and their rows (B, T), `PADDING`
        behind the end of a row, to (L, N, 2P), the rows of one sequence after the other.
        """
        lengths = (index >= 0).sum(dim=1)  # (B,)
        used = lengths.nonzero().squeeze(1)
        if not len(used):
            return table.new_zeros(self.num_layers, 0, 2 * self.hidden_size)
        start, weights = (
            self._start(len(index), used),
            current_weights(self, [dataset.name for dataset in _table(self.config, self.input_size)]),
        )
        every = [*weights.values()]
        has_gradient = any(weight.requires_grad for weight in [table, *every])
        if (torch.is_grad_enabled() and has_gradient) or self.input_size != self.hidden_size:
            layers = self._join(weights)
            rows, end = run_padded(self.config, layers, table, index[used], start)
        else:
            is_cached = are_parameters(every)
            runner = self._derived.get(self, lambda: self._derive(weights)) if is_cached else self._derive(weights)
            tokens = index[index >= 0].cpu().numpy()
            stack, end = run_sequences(runner, table.detach().float(), tokens, lengths[used].tolist(), start)
            rows = stack[1:]  # the first layer is the table
        if self.stateful:
            self._store_states(end, len(index), used)
        return rows.to(table.dtype)

    def _join(self, weights: Dict[str, Tensor]) -> List["LayerWeights"]:
        """Weights by the names of AllenNLP in our layers, from the lowest up, attached to the graph."""
        parameters = import_tensors(_table(self.config, self.input_size), weights)
        names = LayerWeights._fields
        return [
            LayerWeights(*(parameters[f"encoder.layers.{k}.{name}"] for name in names)) for k in range(self.num_layers)
        ]

    @torch.no_grad()
    def _derive(self, weights: Dict[str, Tensor]) -> Runner:
        stored = [{name: value.float() for name, value in layer.stored().items()} for layer in self._join(weights)]
        with torch.device("meta"):
            network = BiLMNetwork(self.config)
        stack = network.encoder
        assert isinstance(stack, LSTMStack)
        state = {f"layers.{k}.{name}": value for k, layer in enumerate(stored) for name, value in layer.items()}
        stack.load_state_dict(state, assign=True)
        return make_runner(network.eval())

    def _start(self, n_rows: int, used: Tensor) -> BiLMState:
        """The states of some rows of a batch with `n_rows` rows."""
        device = used.device
        if self._states is None or not self.stateful:
            sizes = (2 * self.hidden_size, 2 * self.cell_size)
            shapes = [(self.num_layers, len(used), size) for size in sizes]
            return BiLMState(*(torch.zeros(shape, dtype=torch.float32, device=device) for shape in shapes))
        padded = BiLMState(*self._states).to(device).pad(n_rows)
        return BiLMState(padded.h[:, used], padded.c[:, used])

    @torch.no_grad()
    def _store_states(self, end: BiLMState, n_rows: int, used: Tensor) -> None:
        """Rows that had no words, and rows beyond the batch, keep their state."""
        if self._states is None:
            old = BiLMState(end.h[:, :0], end.c[:, :0]).pad(n_rows)
        else:
            old = BiLMState(*self._states).to(end.h.device).pad(n_rows)
        h, c = end.h.detach(), end.c.detach()
        self._states = old.h.index_copy(1, used, h), old.c.index_copy(1, used, c)


@lru_cache(maxsize=8)
def _table(config: BiLMConfig, input_width: int) -> Tuple[Dataset, ...]:
    return tuple(allennlp_lstm_datasets(config, "", input_width))


class LayerWeights(NamedTuple):
    """Weights of one LSTM layer in our order, with shapes (2, P, 4H), (2, P, 4H), (2, 4H) and (2, H, P). `bias`
    includes the forget bias.
    """

    input_weight: Tensor
    recurrent_weight: Tensor
    bias: Tensor
    projection_weight: Tensor

    def stored(self) -> Dict[str, Tensor]:
        """The parameters of an `LSTMLayer`."""
        return {**self._asdict(), "bias": self.bias - full_bias(torch.zeros_like(self.bias))}


def _read_cells(path: Path, input_width: int, config: BiLMConfig) -> Dict[str, Tensor]:
    """Parameters of the cells by the names of AllenNLP from an HDF5 file, whose other arrays are not used; the input of
    the first layer has a width of its own. ValueError for files that cannot be read, EL026 if its LSTM has other sizes.
    """
    p, h, n_layers = config.projection_width, config.cell_width, config.n_layers
    widths = [input_width, *[p] * (n_layers - 1)]
    table = [
        lstm_dataset
        for k, width in enumerate(widths)
        for d in range(2)
        for lstm_dataset in bilm_tf.lstm_datasets(config, d, k, width)
    ]
    arrays = {bilm_tf.regular_name(name): array for name, array in read_hdf5(File(path)).items()}
    lstm_arrays = {name: array for name, array in arrays.items() if name.startswith("RNN_")}
    problems = find_mismatches({dataset.name: dataset.shape for dataset in table}, lstm_arrays)
    raise_mismatches(problems, path, f"ElmoLstm({input_width}, {p}, {h}, {n_layers})")
    shapes: Dict[str, Tuple[int, ...]] = {}
    for k, width in enumerate(widths):
        sizes = (2, width, 4 * h), (2, p, 4 * h), (2, 4 * h), (2, h, p)
        shapes.update({f"encoder.layers.{k}.{name}": shape for name, shape in zip(LayerWeights._fields, sizes)})
    exported = export_arrays(_table(config, input_width), import_arrays(table, lstm_arrays, shapes))
    return {name: torch.from_numpy(array) for name, array in exported.items()}


def run_padded(
    config: BiLMConfig, layers: Sequence[LayerWeights], table: Tensor, index: Tensor, start: BiLMState
) -> Tuple[Tensor, BiLMState]:
    """Rows of very different length are computed in groups of similar length. So there is less padding than tokens, or
    little of both.

    layers (Sequence[LayerWeights]): Weights from the lowest layer up.
    table (Tensor), index (Tensor): Shape (U, P), and (B, T): rows of the table, negative behind the end of a row, which
        has at least one.
    start (BiLMState): One row per sequence. It gets no gradient.
    RETURNS (Tuple[Tensor, BiLMState]): Outputs (L, N, 2P), one row after the other; states at the ends.
    """
    lengths = (index >= 0).sum(dim=1)
    output_rows = (index >= 0).flatten().cumsum(0).view(index.shape) - 1  # (B, T), place of each token in the outputs
    outputs: List[Tensor] = []
    places: List[Tensor] = []
    h, c = torch.empty_like(start.h), torch.empty_like(start.c)
    for rows in _similar_rows(lengths.tolist()):
        group = torch.tensor(rows, device=index.device)
        n_steps = int(lengths[group].max())
        vectors = nn.functional.embedding(index[group, :n_steps].clamp_min(0), table)  # (b, t, P)
        group_state = BiLMState(start.h[:, group], start.c[:, group])
        group_rows, end = _run_group(config, layers, vectors, lengths[group], group_state)
        outputs.append(group_rows)
        places.append(output_rows[group][index[group] >= 0])
        h[:, group], c[:, group] = end.h, end.c
    if len(outputs) == 1:
        return outputs[0], BiLMState(h, c)
    return torch.cat(outputs, dim=1)[:, torch.cat(places).argsort()], BiLMState(h, c)


def _similar_rows(lengths: Sequence[int]) -> List[List[int]]:
    """Numbers of rows, the shortest of each group at least half as long as the longest."""
    if max(lengths) * len(lengths) <= max(2 * sum(lengths), PADDED_TOKENS):
        return [list(range(len(lengths)))]
    groups: List[List[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if not groups or 2 * lengths[i] < lengths[groups[-1][0]]:
            groups.append([])
        groups[-1].append(i)
    return groups


def _run_group(
    config: BiLMConfig, layers: Sequence[LayerWeights], vectors: Tensor, lengths: Tensor, start: BiLMState
) -> Tuple[Tensor, BiLMState]:
    """Outputs (L, N, 2P), one row after the other, and the states at the ends, of vectors (B, T, P) with lengths (B,),
    1 or more. Behind the end of a row the gates keep the memory cell as it is, so that the last is that at the end.
    """
    n_rows, n_steps, _ = vectors.shape
    steps = torch.arange(n_steps, device=vectors.device)
    mask = steps < lengths.unsqueeze(1)  # (B, T)
    reverse = torch.where(mask, lengths.unsqueeze(1) - 1 - steps, steps)  # (B, T), its own inverse
    inputs = torch.stack([vectors, _reorder(vectors, reverse)]).transpose(1, 2)  # (2, T, B, P), in reading order
    outputs: List[Tensor] = []
    ends: List[LSTMState] = []
    for k, (layer, (h, c)) in enumerate(zip(layers, start.to_state(config).layers)):
        out, end = _run_layer(config, layer, inputs, mask, h, c)
        inputs = out + inputs if k and config.has_skip else out
        forward, backward = inputs.transpose(1, 2)  # 2 x (B, T, P)
        joined = torch.cat([forward, _reorder(backward, reverse)], dim=2)
        outputs.append(joined[mask])
        ends.append(end)
    return torch.stack(outputs), BiLMState.from_state(State(tuple(ends)))


def _run_layer(
    config: BiLMConfig, layer: LayerWeights, inputs: Tensor, mask: Tensor, h: Tensor, c: Tensor
) -> Tuple[Tensor, LSTMState]:
    d, n_steps, n_rows, _ = inputs.shape
    rows = inputs.flatten(1, 2).to(layer.input_weight.dtype)
    gates = torch.baddbmm(layer.bias.unsqueeze(1), rows, layer.input_weight)
    gates = gates.view(d, n_steps, n_rows, -1)  # (2, T, B, 4H)
    gates = torch.where(mask.t().unsqueeze(-1), gates, _make_holding_gates(gates))
    outputs, _, last_c = run_recurrence(
        gates,
        layer.recurrent_weight,
        layer.projection_weight,
        h,
        c,
        cell_clip=config.cell_clip,
        projection_clip=config.projection_clip,
    )
    last = mask.sum(dim=1) - 1  # (B,)
    last_h = outputs[:, last, torch.arange(n_rows, device=last.device)]  # (2, B, P)
    return outputs, LSTMState(last_h.detach(), last_c)


def _make_holding_gates(gates: Tensor) -> Tensor:
    """Shape (4H,), gates i, j, f, o that let nothing in and keep everything."""
    row = gates.new_zeros(4, gates.shape[-1] // 4)
    row[0], row[2] = -CLOSED_GATE, CLOSED_GATE
    return row.view(-1)


def _reorder(rows: Tensor, index: Tensor) -> Tensor:
    """Rows (B, T, P) in another order, by an index (B, T)."""
    return rows.gather(1, index.unsqueeze(-1).expand(-1, -1, rows.shape[2]))
