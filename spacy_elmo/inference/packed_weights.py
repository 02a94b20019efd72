"""Weights of a layer that are packed for the native kernel when it first predicts, and products with them."""

from abc import ABC, abstractmethod
from typing import Callable, Generic, List, Optional, Sequence, Tuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .kernel import Product, has_kernel, kernel_product, pack_panels

PackedT = TypeVar("PackedT")


def takes_kernel(rows: Tensor, weights: Sequence[Tensor]) -> bool:
    """RETURNS (bool): Whether the kernel computes these rows with these weights: float32 on a CPU, without gradients or
    autocast. A trace needs the operations of torch: it would take results of the kernel for constants.
    """
    tensors = [rows, *weights]
    needs_gradients = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    is_traced = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]  # torch does not export it
    needs_torch = needs_gradients or is_traced or torch.is_autocast_enabled("cpu")
    return not needs_torch and all(has_kernel(tensor) for tensor in tensors)


class PackedWeights(ABC, Generic[PackedT]):
    """Holds the weights of a layer, packed for the kernel: at their first use, and again after each change. Copies and
    pickles of a model have none.

    Changes are found by a comparison of all bits with a copy, since Thinc's optimizers write into NumPy arrays, which
    have no version counter. 395,000 weights take 0.04 ms.
    """

    def __init__(self) -> None:
        self._packed: Optional[Tuple[List[NDArray[np.int32]], PackedT]] = None  # replaced at once: threads share it

    def __reduce__(self) -> Tuple[type, Tuple[()]]:
        return type(self), ()

    @abstractmethod
    def pack(self, weights: Sequence[Tensor]) -> PackedT:
        """RETURNS (PackedT): What the kernel reads."""

    def get(self, weights: Sequence[Tensor]) -> PackedT:
        """RETURNS (PackedT): What `pack` returns for these weights."""
        bits = [weight.detach().numpy().view(np.int32) for weight in weights]
        packed = self._packed
        if packed is None or not all(map(np.array_equal, packed[0], bits)):
            copies = [array.copy(order="K") for array in bits]
            self._packed = packed = copies, self.pack([torch.from_numpy(array.view(np.float32)) for array in copies])
        return packed[1]


class PackedLinear(PackedWeights[Product]):
    """The product of rows with a matrix. A row gives the same bits in every batch."""

    def pack(self, weights: Sequence[Tensor]) -> Product:
        (matrix,) = weights
        return kernel_product(pack_panels(matrix.t()), len(matrix))

    def bind(self, matrix: Tensor, bias: Optional[Tensor] = None) -> Callable[[Tensor], Tensor]:
        """matrix (Tensor): Shape (nO, nI), float32 on a CPU.
        bias (Optional[Tensor]): Shape (nO,); None for none.
        RETURNS (Callable[[Tensor], Tensor]): From rows (..., nI) to rows (..., nO), without gradients.
        """
        product, added = self.get([matrix]), None if bias is None else bias[None, None]
        return lambda rows: product(rows.flatten(0, -2)[None], added)[0].unflatten(0, rows.shape[:-1])
