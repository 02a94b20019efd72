"""The character CNN with constant weights: the vector of a word is bit-identical in every batch.

The order of sums in BLAS libraries depends on the number of rows, so the vector of a word would depend on the other
words computed with it, and on the cache. This does not hold for prepacked products, see `PackedProduct`.
"""

from typing import Callable, List, Sequence

import torch
from torch import Tensor

from ..bilm.char_cnn import CharCNN
from ..bilm.highway import Highway, apply_highway
from .dispatch import PREPACKED_WORD_WEIGHTS
from .products import Product, has_packing, make_product

Step = Callable[[Tensor], Tensor]


class ConstantCharCNN:
    """A `CharCNN` for inference. Highways and projection are prepacked if the processor supports it and the matrix has
    at most `PREPACKED_WORD_WEIGHTS` weights.

    char_cnn (CharCNN): Its weights must not change afterwards; in any precision.
    """

    @torch.no_grad()
    def __init__(self, char_cnn: CharCNN) -> None:
        self._char_cnn = char_cnn
        self._products: List[Product] = []
        self._steps: List[Step] = [self._step(module) for module in char_cnn.steps()]

    @torch.no_grad()
    def __call__(self, char_ids: Tensor, lengths: Sequence[int]) -> Tensor:
        """char_ids (Tensor): Shape (U, C) int64.
        lengths (Sequence[int]): Number of ids of each word without padding.
        RETURNS (Tensor): Shape (U, P).
        """
        features = self._char_cnn.pool(char_ids, lengths)  # (U, F)
        for step in self._steps:
            features = step(features)
        return features

    def prepare(self) -> None:
        """Pack the weights now instead of at the first product."""
        for product in self._products:
            product.prepare()

    def _step(self, module: torch.nn.Module) -> Step:
        if isinstance(module, torch.nn.Linear):
            return self._linear(module.weight, module.bias)
        if not isinstance(module, Highway):  # quantized, or a layer norm
            return module
        scores = self._linear(module.weight, module.bias)
        return lambda features: apply_highway(features, scores(features))

    def _linear(self, weight: Tensor, bias: Tensor) -> Step:
        """weight (Tensor): Shape (n_out, n_in). bias (Tensor): Shape (n_out,)."""
        if not has_packing(weight) or weight.numel() > PREPACKED_WORD_WEIGHTS:
            return lambda rows: torch.nn.functional.linear(rows, weight, bias)
        product = make_product(weight.t().unsqueeze(0), slice(0, 1))
        self._products.append(product)
        rows_bias = bias.detach().view(1, 1, -1)
        return lambda rows: product(rows.unsqueeze(0), rows_bias)[0]
