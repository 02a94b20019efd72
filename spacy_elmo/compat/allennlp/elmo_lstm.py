"""`ElmoLstm` of AllenNLP: the LSTM layers of both directions, with a state that is carried from batch to batch."""

from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from ...bilm.config import BiLMConfig
from ...bilm.lstm import FORGET_BIAS, LSTMStack
from ...bilm.model import BiLMNetwork
from ...bilm.state import BiLMState
from ...errors import Errors
from ...inference.dispatch import MAX_LANES
from ...inference.isolation import isolated
from ...inference.runner import Runner, make_runner
from ...nn.inputs import pad_rows
from ...nn.layers import parameter_dtype
from ...text.lanes import plan_lanes
from ..arguments import ConfigurationError, PathLike, check_file
from ..derived import Derived, DerivingModule
from .boundaries import PADDING
from .lstm_weights import read_cells
from .padded_lstm import run_padded
from .parameters import LayerWeights, are_parameters, current_weights, join_cells, own_copy, split_cell

DIRECTIONS = ("forward", "backward")
WEIGHTS = ("input_linearity.weight", "state_linearity.weight", "state_linearity.bias", "state_projection.weight")
Weights = List[List[Dict[str, Tensor]]]  # of each layer, forward and backward


class Cell(nn.Module):
    """Parameters of one layer of one direction.

    input_size (int): Width of the inputs.
    config (BiLMConfig): The other sizes.
    """

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
    RAISES (ValueError): For sizes that do not fit, EL332 for a recurrent dropout.
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
            name, value = "recurrent_dropout_probability", recurrent_dropout_probability
            raise ConfigurationError(Errors.EL332.format(name=name, value=value, wanted="0"))
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
        for layer, cells in zip(network.encoder.layers, module._cells()):  # an LSTMStack, checked by `check_fit`
            for direction, cell in enumerate(cells):
                cell.load_state_dict(own_copy(split_cell(layer.state_dict(), direction)), assign=True)
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
        """Replace all weights by those of a file. The state is kept.

        weight_file (PathLike): HDF5 file of bilm-tf or AllenNLP.
        RAISES (ValueError): EL330 to EL333 for a path without a file, also for files that cannot be read,
            EL026 if its LSTM has other sizes.
        """
        path = check_file("weight_file", weight_file)
        widths = [self.input_size, *[self.hidden_size] * (self.num_layers - 1)]
        for name, parameters in read_cells(path, widths, self.hidden_size, self.cell_size).items():
            self.get_submodule(name).load_state_dict(parameters)
        self.requires_grad_(self.requires_grad)

    @isolated
    def reset_states(self, mask: Optional[Tensor] = None) -> None:
        """mask (Optional[Tensor]): Shape (rows,), True for rows whose state becomes zero; None for all.
        RAISES (ConfigurationError): EL338 for another number of rows.
        """
        if mask is None:
            self._states = None
            return
        wanted = "(0,)" if self._states is None else f"({self._states[0].shape[1]},)"
        if self._states is None or mask.dim() != 1 or len(mask) != self._states[0].shape[1]:
            raise ConfigurationError(Errors.EL338.format(found=tuple(mask.shape), wanted=wanted))
        keep = (mask == 0).view(1, -1, 1)
        h, c = self._states
        self._states = h * keep, c * keep

    @isolated
    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """inputs (Tensor): Shape (B, T, P).
        mask (Tensor): Shape (B, T), True for the first elements of each row; a row may have none.
        RETURNS (Tensor): Shape (L, B, T, 2P), zeros for padding.
        """
        index = torch.arange(mask.numel(), device=mask.device).view(mask.shape).masked_fill(mask == 0, PADDING)
        return pad_rows(self.encode(inputs.flatten(0, 1), index), index >= 0)

    def encode(self, table: Tensor, index: Tensor) -> Tensor:
        """Compute the layers without padding.

        table (Tensor): Shape (U, P), vectors of distinct words.
        index (Tensor): Shape (B, T), rows of the table, `PADDING` behind the end of a row.
        RETURNS (Tensor): Shape (L, N, 2P), the rows of one sequence after the other.
        """
        lengths = (index >= 0).sum(dim=1)  # (B,)
        used = lengths.nonzero().squeeze(1)
        if not len(used):
            return table.new_zeros(self.num_layers, 0, 2 * self.hidden_size)
        start, weights = self._start(len(index), used), self._weights()
        every = [weight for pair in weights for cell in pair for weight in cell.values()]
        has_gradient = any(weight.requires_grad for weight in [table, *every])
        if (torch.is_grad_enabled() and has_gradient) or self.input_size != self.hidden_size:
            layers = [join_cells(pair) for pair in weights]
            rows, end = run_padded(self.config, layers, table, index[used], start)
        else:
            is_kept = are_parameters(every)
            runner = self._derived.get(self, lambda: self._derive(weights)) if is_kept else self._derive(weights)
            rows, end = self._run(runner, table, index[used], lengths[used], start)
        if self.stateful:
            self._keep(end, len(index), used)
        return rows.to(table.dtype)

    def _run(
        self, runner: Runner, table: Tensor, index: Tensor, lengths: Tensor, start: BiLMState
    ) -> Tuple[Tensor, BiLMState]:
        """By the engine. RETURNS (Tuple[Tensor, BiLMState]): Layers (L, N, 2P) and the states at the ends."""
        tokens = index[index >= 0].cpu().numpy()
        plan = plan_lanes(lengths.tolist(), MAX_LANES)
        vectors = table.detach().float()
        rows, end = runner.run(vectors, (tokens, tokens), plan, start.to_state(self.config), with_end=True)
        assert end is not None  # asked for
        return rows[1:], BiLMState.from_state(end)  # the first layer is the table

    def _cells(self) -> List[Tuple[nn.Module, ...]]:
        """RETURNS (List[Tuple[nn.Module, ...]]): The forward and the backward cell of each layer."""
        return list(zip(self.forward_layers, self.backward_layers))

    def _weights(self) -> Weights:
        return [[current_weights(cell, WEIGHTS) for cell in pair] for pair in self._cells()]

    @torch.no_grad()
    def _derive(self, weights: Weights) -> Runner:
        layers: List[LayerWeights] = [join_cells(pair) for pair in weights]
        stored = [{name: value.float() for name, value in layer.stored().items()} for layer in layers]
        with torch.device("meta"):
            network = BiLMNetwork(self.config)
        stack = network.encoder
        assert isinstance(stack, LSTMStack)
        state = {f"layers.{k}.{name}": value for k, layer in enumerate(stored) for name, value in layer.items()}
        stack.load_state_dict(state, assign=True)
        return make_runner(network.eval())

    def _start(self, n_rows: int, used: Tensor) -> BiLMState:
        """RETURNS (BiLMState): The states of some rows of a batch with `n_rows` rows."""
        device = used.device
        if self._states is None or not self.stateful:
            sizes = (2 * self.hidden_size, 2 * self.cell_size)
            shapes = [(self.num_layers, len(used), size) for size in sizes]
            return BiLMState(*(torch.zeros(shape, dtype=torch.float32, device=device) for shape in shapes))
        padded = BiLMState(*self._states).to(device).pad(n_rows)
        return BiLMState(padded.h[:, used], padded.c[:, used])

    @torch.no_grad()
    def _keep(self, end: BiLMState, n_rows: int, used: Tensor) -> None:
        """Rows that had no words, and rows beyond the batch, keep their state."""
        if self._states is None:
            old = BiLMState(end.h[:, :0], end.c[:, :0]).pad(n_rows)
        else:
            old = BiLMState(*self._states).to(end.h.device).pad(n_rows)
        h, c = end.h.detach(), end.c.detach()
        self._states = old.h.index_copy(1, used, h), old.c.index_copy(1, used, c)
