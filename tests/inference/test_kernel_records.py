"""The records that the native kernel reads: a compiled kernel of another version is an error, not a wrong address."""

import copy
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from inference.forcing import needs_kernel

from spacy_elmo.inference import kernel
from spacy_elmo.inference.kernel_records import KernelProduct, KernelTask, check_layout, pack_record

pytestmark = needs_kernel


class CompiledKernel:
    """A kernel as it was compiled from other sources."""

    __file__ = "_kernel.so"

    def __init__(self, **changes):
        vars(self).update(LAYOUTS=copy.deepcopy(kernel.native.LAYOUTS), N_TYPES=kernel.native.N_TYPES)
        vars(self).update(changes)


def rename_field(layouts):
    layouts["Task"]["names"][3] = "places"


def swap_fields(layouts):
    names = layouts["Task"]["names"]
    names[1], names[2] = names[2], names[1]


def add_field(layouts):
    layouts["Layer"]["itemsize"] += 8


def change_format(layouts):
    layouts["Product"]["formats"][0] = "<f4"


def remove_record(layouts):
    del layouts["Product"]


@pytest.mark.parametrize("change", [rename_field, swap_fields, add_field, change_format, remove_record, dict.clear])
def test_a_kernel_with_other_records_is_an_error(change):
    check_layout(CompiledKernel())
    stale = CompiledKernel()
    change(stale.LAYOUTS)
    with pytest.raises(ImportError, match="compiled kernel '_kernel.so' is of another version.*pip install -e"):
        check_layout(stale)


@pytest.mark.parametrize(
    "change", ["native.N_TYPES = 2", "del native.LAYOUTS", "native.LAYOUTS['Task']['itemsize'] += 8"]
)
def test_a_stale_kernel_is_an_error_at_import(change):
    """It would take int8 for bfloat16, or write through wrong addresses."""
    code = f"import spacy_elmo.inference._kernel as native; {change}; import spacy_elmo.inference.kernel"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert process.returncode == 1 and "ImportError: The compiled kernel" in process.stderr


def make_task(**fields):
    sizes = {"input_width": 1, "width": 1, "cell_width": 1, "cell_clip": math.inf, "projection_clip": math.inf}
    return KernelTask(**{**dict.fromkeys(KernelTask._fields, 0), **sizes, **fields})


def make_product(**fields):
    return KernelProduct(**{**dict.fromkeys(KernelProduct._fields, 0), **fields})


@pytest.mark.parametrize("type_index", [-1, 3, 2**40])
def test_a_type_of_weights_out_of_range_is_an_error(type_index):
    for function, record in ((kernel.native.run, make_task()), (kernel.native.multiply, make_product())):
        with pytest.raises(ValueError, match=f"type of the weights is {type_index}, but should be 0 to 2"):
            function(pack_record(record._replace(type=type_index)))


def test_a_record_of_another_size_is_an_error():
    packed = pack_record(make_task())
    assert kernel.native.run(packed) is None  # of no steps
    for wrong in (packed[:-8], packed + packed, b""):
        with pytest.raises(ValueError, match=f"record has {len(wrong)} bytes, but should have {len(packed)}"):
            kernel.native.run(wrong)
    with pytest.raises(TypeError):
        kernel.native.run(0)


def test_fields_of_a_packed_record_are_where_the_kernel_reads_them():
    record = make_task(**{name: k for k, name in enumerate(KernelTask._fields)})
    (task,) = np.frombuffer(pack_record(record), dtype=np.dtype(kernel.native.LAYOUTS["Task"]))
    assert {name: task[name] for name in KernelTask._fields} == record._asdict()
