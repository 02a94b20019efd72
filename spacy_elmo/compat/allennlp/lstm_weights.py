"""Read the LSTM of a weights file of bilm-tf into the cells of `ElmoLstm`."""

from pathlib import Path
from typing import Dict, Sequence, Tuple

import torch
from torch import Tensor

from ...bilm.lstm import FORGET_BIAS
from ...errors import Errors
from ...weights.bilm_tf import regular_name
from ...weights.checks import listed
from ...weights.hdf5 import read_hdf5
from ...weights.sources import Source
from ...weights.tensor_map import Array, find_misfits
from .parameters import swap_gates

CellParameters = Dict[str, Tensor]


def read_cells(path: Path, input_widths: Sequence[int], hidden_size: int, cell_size: int) -> Dict[str, CellParameters]:
    """path (Path): HDF5 file with the weights; parts of a biLM other than the LSTM are not used.
    input_widths (Sequence[int]): Width of the inputs of each layer.
    hidden_size (int): P.
    cell_size (int): H.
    RETURNS (Dict[str, CellParameters]): Parameters of each cell by the names of AllenNLP, under `forward_layer_0` and
        so on.
    RAISES (ValueError): For files that cannot be read, EL026 if its LSTM has other sizes.
    """
    arrays = {regular_name(name): array for name, array in read_hdf5(Source(path)).items()}
    arrays = {name: array for name, array in arrays.items() if name.startswith("RNN_")}
    wanted: Dict[str, Tuple[int, ...]] = {}
    for k, width in enumerate(input_widths):
        for d in range(2):
            wanted[_name(d, k, "W_0")] = (width + hidden_size, 4 * cell_size)
            wanted[_name(d, k, "B")] = (4 * cell_size,)
            wanted[_name(d, k, "W_P_0")] = (cell_size, hidden_size)
    problems = find_misfits(wanted, arrays)
    if problems:
        sizes = f"ElmoLstm({input_widths[0]}, {hidden_size}, {cell_size}, {len(input_widths)})"
        message = Errors.EL026.format(path=path, options=sizes, n_problems=len(problems), problems=listed(problems))
        raise ValueError(message)
    return {
        f"{direction}_layer_{k}": _to_cell(width, *(arrays[_name(d, k, part)] for part in ("W_0", "B", "W_P_0")))
        for k, width in enumerate(input_widths)
        for d, direction in enumerate(("forward", "backward"))
    }


def _name(direction: int, layer: int, part: str) -> str:
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{part}"


def _to_cell(input_width: int, weight: Array, bias: Array, projection: Array) -> CellParameters:
    """input_width (int): I.
    weight (Array): Shape (I + P, 4H), gates i, j, f, o.
    bias (Array): Shape (4H,), without the forget bias.
    projection (Array): Shape (H, P).
    """
    joined = swap_gates(torch.from_numpy(weight.T.astype("float32")))  # (4H, I + P), gates i, f, j, o
    swapped = swap_gates(torch.from_numpy(bias.astype("float32")))
    _, forget, _, _ = swapped.chunk(4)
    forget += FORGET_BIAS  # a view
    return {
        "input_linearity.weight": joined[:, :input_width],
        "state_linearity.weight": joined[:, input_width:],
        "state_linearity.bias": swapped,
        "state_projection.weight": torch.from_numpy(projection.T.astype("float32")),
    }
