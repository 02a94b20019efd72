"""Dropout at the rate of the training, or at one of its own."""

from functools import partial
from typing import Any, Callable, List, Optional, Tuple

from thinc.api import Dropout, Model
from thinc.types import Floats2d

Sequences = List[Floats2d]


def make_dropout(rate: Optional[float]) -> Model[Sequences, Sequences]:
    """rate (Optional[float]): Probability that a value is dropped; None for the `dropout` of [training], which spaCy
        sets before each update.
    RETURNS (Model[List[Floats2d], List[Floats2d]]): A layer that acts in training only.
    """
    return Dropout() if rate is None else Model("fixed_dropout", partial(forward, rate))


def check_dropout(rate: Optional[float]) -> List[str]:
    """RETURNS (List[str]): What is wrong with the setting `dropout` of a layer; empty if nothing is."""
    is_fine = rate is None or (not isinstance(rate, str) and 0 <= rate < 1)
    return [] if is_fine else [f"dropout is {rate!r}, should be from 0 to below 1, or null"]


def forward(
    rate: float, model: Model[Any, Any], sequences: Sequences, is_train: bool
) -> Tuple[Sequences, Callable[[Sequences], Sequences]]:
    """rate (float): Probability that a value is dropped.
    sequences (List[Floats2d]): Arrays of any shape.
    is_train (bool): Whether to drop.
    RETURNS (Tuple[List[Floats2d], Callable]): The arrays, the others scaled by 1 / (1 - rate), and the backward pass.
    """
    if not (is_train and rate):
        return sequences, _same
    masks = [model.ops.get_dropout_mask(sequence.shape, rate) for sequence in sequences]

    def backprop(d_outputs: Sequences) -> Sequences:
        return [d_output * mask for d_output, mask in zip(d_outputs, masks)]

    return [sequence * mask for sequence, mask in zip(sequences, masks)], backprop


def _same(d_outputs: Sequences) -> Sequences:
    return d_outputs
