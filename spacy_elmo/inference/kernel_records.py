"""Arguments of the native kernel: records with the fields of the structs in `_kernel.h`, in the same order.

The kernel exports the layout of its structs, which is compared at import: a compiled kernel of another version cannot
read or write through wrong addresses. A field is an address or a size of 8 bytes, or a float of 4. Arrays are
contiguous; floats are float32, indices int32, and the address 0 is no array. Their sizes are not checked. P is `width`,
H is `cell_width`; P* and H* are padded to whole panels. A plan has S steps and B lanes. Panels of bfloat16
and int8 have a half and a quarter of the rows, rounded up; see `PackedMatrix`.
"""

import struct
from typing import Any, Dict, NamedTuple, Tuple, Type

import numpy as np

from .installation import how_to_install

WEIGHT_TYPES = ("float32", "bfloat16", "int8")  # of weights, in the order of `Type` in `_kernel.h`
Address = int


class KernelLayer(NamedTuple):
    """One direction of a layer: `Layer` in `_kernel.h`.

    input_weights (int), recurrent_weights (int): Panels of the weights of inputs and of previous outputs (P, 4H*).
    bias (int): Shape (4H*,).
    projection (int): Panels of (H, P*), or 0: then P is H.
    highway (int), highway_bias (int): Panels of (P, P*) or 0, and (P*,).
    start_h (int), start_c (int): Initial states (any, P) and (any, H).
    end_h (int), end_c (int): States after sequences, likewise, or 0.
    """

    input_weights: Address
    recurrent_weights: Address
    bias: Address
    projection: Address
    highway: Address
    highway_bias: Address
    start_h: Address
    start_c: Address
    end_h: Address
    end_c: Address


class KernelTask(NamedTuple):
    """All steps of a stack in one direction for some lanes of a plan: `Task` in `_kernel.h`.

    layers (int): `n_layers` records `KernelLayer`, one after the other.
    vectors (int): Shape (n_words, input_width), inputs of the distinct words.
    words (int): The word of each token.
    tokens (int): Shape (S, B), the token in each slot.
    n_active (int): Shape (S,), the lanes of the plan that have a token at each step.
    starting (int): Shape (S, B), the row of the initial state of the sequence that starts in a slot, or -1.
    ending (int): Shape (S, B), the row of the state after the sequence that ends in a slot, or -1; 0 if no states are
        needed.
    token_rows (int): Output, or 0: the vector of each token, in rows `rows_stride` numbers apart.
    outputs (int): Output: a row of P numbers for each token, likewise. Those of the next layer are `layer_stride`
        numbers further.
    gates (int): Room for `max_gates` numbers.
    input_width (int): Width of the inputs of layer 1; above it inputs have P numbers.
    has_skip (int): Whether inputs are added to the outputs of the layers above the first.
    first_lane (int), n_lanes (int): The lanes to compute.
    max_slots (int): Slots to compute between two checks for signals.
    few_lanes (int): Lanes up to which the input side of an upper layer is one product of many steps.
    type (int): Index of the weights' type in `WEIGHT_TYPES`.
    cell_clip (float), projection_clip (float): Bounds; infinity for none.
    """

    layers: Address
    vectors: Address
    words: Address
    tokens: Address
    n_active: Address
    starting: Address
    ending: Address
    token_rows: Address
    outputs: Address
    gates: Address
    n_layers: int
    input_width: int
    width: int
    cell_width: int
    has_skip: int
    n_words: int
    rows_stride: int
    layer_stride: int
    n_steps: int
    n_plan_lanes: int
    first_lane: int
    n_lanes: int
    max_gates: int
    max_slots: int
    few_lanes: int
    type: int
    cell_clip: float
    projection_clip: float


class KernelProduct(NamedTuple):
    """A product of rows with weights, with a bias: `Product` in `_kernel.h`.

    rows (int): Shape (n_rows, n_in), `rows_stride` numbers apart.
    weights (int): `n_panels` panels, each `panel_size` times 4 bytes after the one before.
    bias (int): Shape (n_panels * PANEL_WIDTH,).
    out (int): Output, shape (n_rows, n_panels * PANEL_WIDTH), `out_stride` numbers apart.
    type (int): Index of the weights' type in `WEIGHT_TYPES`.
    """

    rows: Address
    rows_stride: int
    n_in: int
    weights: Address
    bias: Address
    out: Address
    n_rows: int
    n_panels: int
    panel_size: int
    out_stride: int
    type: int


RECORDS: Dict[str, Type[Any]] = {"Layer": KernelLayer, "Task": KernelTask, "Product": KernelProduct}
RECORD_FORMATS = {  # in the words of `struct`
    record: "=" + "".join("f" if kind is float else "q" for kind in record.__annotations__.values())
    for record in RECORDS.values()
}


def pack_record(record: Tuple[Any, ...]) -> bytes:
    """RETURNS (bytes): The struct of a record, as the kernel reads it."""
    return struct.pack(RECORD_FORMATS[type(record)], *record)


def check_layout(native: Any) -> None:
    """RAISES (ImportError): If a compiled kernel has other records, or other types of weights, than this version."""
    layouts = {name: np.dtype(layout) for name, layout in getattr(native, "LAYOUTS", {}).items()}
    expected = {
        name: np.dtype([(field, f"={code}") for field, code in zip(record._fields, RECORD_FORMATS[record][1:])])
        for name, record in RECORDS.items()
    }
    if layouts != expected or getattr(native, "N_TYPES", 0) != len(WEIGHT_TYPES):
        raise ImportError(
            f"The compiled kernel '{native.__file__}' is of another version of spacy-elmo. Compile it again: "
            f"{how_to_install()}."
        )
