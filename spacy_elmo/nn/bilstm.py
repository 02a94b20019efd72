"""A bidirectional LSTM over the padded vectors of sentences, for the models of tasks."""

from typing import Any

import torch
from torch import Tensor, nn

from .._settings import is_count
from ..errors import Errors
from ..inference.lstm_sequences import run_lstm
from .scalar_mix import check_mask, parameter_dtype


class BiLSTM(nn.Module):
    """`torch.nn.LSTM` in both directions over each sentence, without its padding: the batch changes nothing.

    It computes the same as packed sequences. Their backward pass is slow on CPUs, so that sentences of similar
    length are computed together in training there.

    input_width (int): Width of the input, nI.
    width (int): Width of each direction, H. The output has 2H: forward, then backward.
    RAISES (ValueError): EL060 for invalid settings.
    """

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__()
        sizes = {"input_width": input_width, "width": width}
        wrong = {name: size for name, size in sizes.items() if not is_count(size)}
        problems = [f"{name} is {size!r}, should be a whole number of 1 or more" for name, size in wrong.items()]
        if problems:
            raise ValueError(Errors.EL060.format(block="BiLSTM", problems="; ".join(problems)))
        self.lstm = nn.LSTM(input_width, width, batch_first=True, bidirectional=True, dtype=parameter_dtype())

    def forward(self, rows: Tensor, mask: Tensor) -> Tensor:
        """rows (Tensor): Shape (B, S, nI), float.
        mask (Tensor): Shape (B, S), bool: which rows are words.
        RETURNS (Tensor): Shape (B, S, 2H), zeros at the padding.
        RAISES (ValueError): For rows or a mask of another type or shape.
        """
        self._check(rows)
        check_mask(mask, rows)
        if not mask.any():
            return rows.new_zeros(*mask.shape, 2 * self.lstm.hidden_size)
        weights = [matrix for direction in self.lstm.all_weights for matrix in direction]
        outputs = run_lstm(rows[mask], mask.sum(dim=1).tolist(), weights)  # (T, 2H)
        encoded = outputs.new_zeros(*mask.shape, outputs.shape[-1])  # of the type that autocast chose
        encoded[mask] = outputs
        return encoded

    def _check(self, rows: Any) -> None:
        width, dtype, found = self.lstm.input_size, self.lstm.weight_ih_l0.dtype, ""
        if not isinstance(rows, Tensor):
            found = f"of type {type(rows).__name__}"
        elif rows.dim() != 3 or rows.shape[-1] != width:
            found = f"of shape {tuple(rows.shape)}"
        elif rows.dtype != dtype and not torch.is_autocast_enabled(rows.device.type):
            found = f"{rows.dtype}, the weights {dtype}"
        if found:
            raise ValueError(
                f"The rows of the BiLSTM are {found}, but should be a tensor (B, S, {width}): sentences, tokens of the "
                "longest one, input_width. Pass padded vectors of this width."
            )
