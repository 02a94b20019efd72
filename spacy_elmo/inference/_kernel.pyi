from typing import Any, Dict

PANEL_WIDTH: int
"""Columns of a panel of weights; cells are padded to a multiple of it."""
N_TYPES: int
"""Number of types of weights; their order is that of `kernel_records.WEIGHT_TYPES`."""
INSTRUCTION_SET: str
"""The kernel that is used: "avx512_bf16", "avx512", "avx2" or "generic"; `SPACY_ELMO_CPU_ISA` selects another one."""
LAYOUTS: Dict[str, Dict[str, Any]]
"""For each struct of `kernel_records.RECORDS` the arguments of `numpy.dtype`: names, formats, offsets and itemsize."""

def run(task: bytes) -> None:
    """Compute a task.

    task (bytes): A packed `kernel_records.KernelTask`.
    RAISES (MemoryError): If there is no memory for the lanes.
    RAISES (ValueError): For a record of another size, or a type of weights out of range.
    """

def multiply(product: bytes) -> None:
    """Multiply rows with panels of weights, and add a bias.

    product (bytes): A packed `kernel_records.KernelProduct`.
    RAISES (MemoryError): If there is no memory for copies of some rows.
    RAISES (ValueError): For a record of another size, or a type of weights out of range.
    """
