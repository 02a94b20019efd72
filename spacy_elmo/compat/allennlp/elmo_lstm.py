"""`ElmoLstm` of AllenNLP: the LSTM layers of both directions, with a state that is carried from batch to batch."""

from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from ...bilm.config import BiLMConfig
from ...bilm.lstm import LSTMStack
from ...bilm.model import BiLMNetwork
from ...bilm.state import BiLMState
from ...engine.dispatch import MAX_LANES
from ...engine.runner import Runner, make_runner
from ...errors import Errors
from ...text.lanes import plan_lanes
from ..arguments import ConfigurationError
from ..derived import Derived
from .boundaries import PADDING
from .padded_lstm import run_padded
from .parameters import LayerWeights, join_cells, split_cell

DIRECTIONS = ("forward", "backward")


class Cell(nn.Module):
    """Parameters of one layer of one direction.

    config (BiLMConfig): Sizes.
    """

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        width, cell_width = config.projection_width, config.cell_width
        self.input_size = self.hidden_size = width
        self.cell_size = cell_width
        self.input_linearity = nn.Linear(width, 4 * cell_width, bias=False)
        self.state_linearity = nn.Linear(width, 4 * cell_width, bias=True)
        self.state_projection = nn.Linear(cell_width, width, bias=False)


class ElmoLstm(nn.Module):
    """Every row of a batch begins with the state that this row of the batch before ended with.

    network (BiLMNetwork): Its weights are copied.
    requires_grad (bool): Train the weights. Gradients do not go back beyond the batch.
    """

    def __init__(self, network: BiLMNetwork, requires_grad: bool = False) -> None:
        super().__init__()
        self.config = config = network.config
        self.input_size = self.hidden_size = config.projection_width
        self.cell_size, self.num_layers = config.cell_width, config.n_layers
        self.requires_grad = requires_grad
        self.stateful = True
        self._states: Optional[Tuple[Tensor, Tensor]] = None  # (L, rows, 2P), (L, rows, 2H)
        self._derived: Derived[Runner] = Derived()
        for k, layer in enumerate(network.encoder.layers):  # type: ignore[attr-defined]  # an LSTMStack, checked by `check_fit`
            for direction, name in enumerate(DIRECTIONS):
                with torch.device("meta"):
                    cell = Cell(config)
                weights = split_cell(layer.state_dict(), direction)
                cell.load_state_dict({key: value.clone() for key, value in weights.items()}, assign=True)
                self.add_module(f"{name}_layer_{k}", cell)
        self.requires_grad_(requires_grad)

    @property
    def forward_layers(self) -> List[nn.Module]:
        """RETURNS (List[nn.Module]): The layers of the forward direction."""
        return [self.get_submodule(f"forward_layer_{k}") for k in range(self.num_layers)]

    @property
    def backward_layers(self) -> List[nn.Module]:
        """RETURNS (List[nn.Module]): The layers of the backward direction."""
        return [self.get_submodule(f"backward_layer_{k}") for k in range(self.num_layers)]

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

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """inputs (Tensor): Shape (B, T, P).
        mask (Tensor): Shape (B, T), True for the first elements of each row; a row may have none.
        RETURNS (Tensor): Shape (L, B, T, 2P), zeros for padding.
        """
        index = torch.arange(mask.numel(), device=mask.device).view(mask.shape)
        return self.run(inputs.flatten(0, 1), index.masked_fill(mask == 0, PADDING))

    def run(self, table: Tensor, index: Tensor) -> Tensor:
        """table (Tensor): Shape (U, P), vectors of distinct words.
        index (Tensor): Shape (B, T), rows of the table, `PADDING` behind the end of a row.
        RETURNS (Tensor): Shape (L, B, T, 2P), zeros for padding.
        """
        lengths = (index >= 0).sum(dim=1)  # (B,)
        used = lengths.nonzero().squeeze(1)
        outputs = table.new_zeros(self.num_layers, *index.shape, 2 * self.hidden_size)
        if not len(used):
            return outputs
        start = self._start(len(index), used)
        has_gradient = table.requires_grad or any(parameter.requires_grad for parameter in self.parameters())
        compute = self._run_with_grad if torch.is_grad_enabled() and has_gradient else self._run
        rows, end = compute(table, index[used], lengths[used], start)
        if self.stateful:
            self._keep(end, len(index), used)
        return outputs.index_copy(1, used, rows.to(outputs.dtype))

    def _run(
        self, table: Tensor, index: Tensor, lengths: Tensor, start: BiLMState
    ) -> Tuple[Tensor, BiLMState]:
        """By the engine. RETURNS (Tuple[Tensor, BiLMState]): Layers (L, B, T, 2P) and the states at the ends."""
        mask = index >= 0
        tokens = index[mask].cpu().numpy()
        plan = plan_lanes(lengths.tolist(), MAX_LANES)
        runner = self._derived.get(self, self._derive)
        vectors = table.detach().float()
        rows, end = runner.run(vectors, (tokens, tokens), plan, start.to_state(self.config), with_end=True)
        assert end is not None  # asked for
        outputs = rows.new_zeros(self.num_layers, *index.shape, rows.shape[-1])
        outputs[:, mask] = rows[1:]  # the first layer is the table
        return outputs, BiLMState.from_state(end)

    def _run_with_grad(
        self, table: Tensor, index: Tensor, lengths: Tensor, start: BiLMState
    ) -> Tuple[Tensor, BiLMState]:
        vectors = nn.functional.embedding(index.clamp_min(0), table)  # (B, T, P)
        layers = [join_cells(cells) for cells in self._cells()]
        return run_padded(self.config, layers, vectors, lengths, start)

    def _cells(self) -> List[List[Dict[str, Tensor]]]:
        pairs = zip(self.forward_layers, self.backward_layers)
        return [[dict(cell.named_parameters()) for cell in pair] for pair in pairs]

    @torch.no_grad()
    def _derive(self) -> Runner:
        layers: List[LayerWeights] = [join_cells(cells) for cells in self._cells()]
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
            h = torch.zeros(self.num_layers, len(used), 2 * self.hidden_size, device=device)
            return BiLMState(h, torch.zeros(self.num_layers, len(used), 2 * self.cell_size, device=device))
        padded = BiLMState(*self._states).to(device).pad(n_rows)
        return BiLMState(padded.h[:, used], padded.c[:, used])

    def _keep(self, end: BiLMState, n_rows: int, used: Tensor) -> None:
        """Rows that had no words, and rows beyond the batch, keep their state."""
        if self._states is None:
            old = BiLMState(end.h[:, :0], end.c[:, :0]).pad(n_rows)
        else:
            old = BiLMState(*self._states).to(end.h.device).pad(n_rows)
        h, c = end.h.detach(), end.c.detach()
        self._states = old.h.index_copy(1, used, h), old.c.index_copy(1, used, c)
