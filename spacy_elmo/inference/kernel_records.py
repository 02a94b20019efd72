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
    """One direction of a layer: `Layer` in `_kernel.h`."""

    input_weights: Address  # panels (inputs, 4H*)
    recurrent_weights: Address  # panels (P, 4H*), of previous outputs
    bias: Address  # (4H*,)
    projection: Address  # panels (H, P*), or 0: then P is H
    highway: Address  # panels (P, P*), or 0
    highway_bias: Address  # (P*,)
    start_h: Address  # (any, P), initial states
    start_c: Address  # (any, H)
    end_h: Address  # output or 0, states after sequences
    end_c: Address


class KernelTask(NamedTuple):
    """All steps of a stack in one direction for some lanes of a plan: `Task` in `_kernel.h`."""

    layers: Address  # `n_layers` records `KernelLayer`, one after the other
    vectors: Address  # (n_words, input_width), inputs of the distinct words
    words: Address  # the word of each token
    tokens: Address  # (S, B), the token in each slot
    n_active: Address  # (S,), the lanes of the plan that have a token at each step
    starting: Address  # (S, B), the row of the initial state of the sequence that starts in a slot, or -1
    ending: Address  # (S, B), the row of the state after the sequence that ends in a slot, or -1; 0 for no states
    token_rows: Address  # output or 0: the vector of each token, in rows `rows_stride` numbers apart
    outputs: Address  # output: a row of P numbers for each token, likewise
    gates: Address  # room for `max_gates` numbers
    n_layers: int
    input_width: int  # of layer 1; above it inputs have P numbers
    width: int  # P
    cell_width: int  # H
    has_skip: int  # whether inputs are added to the outputs of the layers above the first
    n_words: int
    rows_stride: int
    layer_stride: int  # numbers from the outputs of a layer to those of the next one
    n_steps: int  # S
    n_plan_lanes: int  # B
    first_lane: int  # the first of the lanes to compute
    n_lanes: int  # the number of lanes to compute
    max_gates: int
    max_slots: int  # slots to compute between two checks for signals
    few_lanes: int  # lanes up to which the input side of an upper layer is one product of many steps
    type: int  # index of the weights' type in `WEIGHT_TYPES`
    cell_clip: float  # infinity for none
    projection_clip: float


class KernelProduct(NamedTuple):
    """A product of rows with weights, with a bias: `Product` in `_kernel.h`."""

    rows: Address  # (n_rows, n_in), `rows_stride` numbers apart
    rows_stride: int
    n_in: int
    weights: Address  # `n_panels` panels
    bias: Address  # (n_panels * PANEL_WIDTH,)
    out: Address  # output, (n_rows, n_panels * PANEL_WIDTH), `out_stride` numbers apart
    n_rows: int
    n_panels: int
    panel_size: int  # numbers of 4 bytes from panel to panel
    out_stride: int
    type: int  # index of the weights' type in `WEIGHT_TYPES`


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
