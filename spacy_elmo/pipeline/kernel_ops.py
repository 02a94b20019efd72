"""Products of the layers of spaCy and Thinc by the native kernel, with `nlp.after_pipeline_creation`.

Thinc multiplies by BLIS; the kernel takes a fifth of its time (768 inputs and 321 outputs, AMD EPYC, family 26, model
2). A row has the same bits in every batch.
"""

from typing import Any, Callable, Dict, Optional, Tuple

import numpy
import torch
from spacy.language import Language
from thinc.api import Model, NumpyOps
from thinc.types import Floats2d
from torch import Tensor

from ..inference.kernel import has_kernel
from ..inference.packed_weights import PackedLinear
from ..inference.runtime import isolated, register_fork_handlers

KERNEL_PRODUCTS = "spacy-elmo.KernelProducts.v1"
MAX_MATRICES = 256  # held; those of a pipeline are fewer


def KernelProducts() -> Callable[[Language], Language]:
    """Let the layers of all components on a CPU multiply by the native kernel. For `nlp.after_pipeline_creation`."""
    return use_kernel


def use_kernel(nlp: Language) -> Language:
    """RETURNS (Language): The same pipeline. Components on a GPU, or on a CPU with other operations than those of
    Thinc's `NumpyOps`, such as Apple's, keep these.
    """
    register_fork_handlers()
    ops = KernelOps()
    for _, component in nlp.components:
        model = getattr(component, "model", None)
        for node in model.walk() if isinstance(model, Model) else ():
            if type(node.ops) is NumpyOps:
                node.ops = ops
    return nlp


class KernelOps(NumpyOps):  # type: ignore[misc]  # a compiled class without types
    """`NumpyOps` that multiplies inputs with the matrix of a layer by the native kernel."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._packed: Dict[Tuple[int, ...], PackedLinear] = {}  # by address and shape

    def __reduce__(self) -> Tuple[type, Tuple[()]]:
        return KernelOps, ()

    def gemm(
        self, x: Floats2d, y: Floats2d, out: Optional[Floats2d] = None, trans1: bool = False, trans2: bool = False
    ) -> Floats2d:
        """The product of two matrices, or of their transposes. The kernel computes x y^T, the product of a layer."""
        if out is None and trans2 and not trans1 and x.dtype == y.dtype == "float32" and x.size and y.size:
            matrix = torch.from_numpy(numpy.ascontiguousarray(y))
            if has_kernel(matrix):
                key = (y.ctypes.data, *y.shape)
                if key not in self._packed and len(self._packed) >= MAX_MATRICES:
                    self._packed = {}
                packed = self._packed.setdefault(key, PackedLinear())
                rows = torch.from_numpy(numpy.ascontiguousarray(x))
                product: Floats2d = _multiply(packed, rows, matrix).numpy()
                return product
        result: Floats2d = super().gemm(x, y, out=out, trans1=trans1, trans2=trans2)
        return result


@isolated
@torch.no_grad()
def _multiply(packed: PackedLinear, rows: Tensor, matrix: Tensor) -> Tensor:
    return packed.bind(matrix)(rows).contiguous()
