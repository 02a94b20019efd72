"""The character CNN of a constant network: a word has the same vector, to the last bit, in every batch.

BLAS libraries sum in another order for each number of rows, so that a word would depend on the words that were new
together with it, and on the cache. Prepacked products do not, see `PackedProduct`.
"""

from typing import Callable, List, Sequence, Union

import torch
from torch import Tensor

from ..bilm.char_cnn import CharCNN
from ..bilm.highway import Highway, open_gate
from .dispatch import PREPACKED_WORD_WEIGHTS
from .products import Product, has_packing, make_product

Step = Callable[[Tensor], Tensor]


class ConstantCharCNN:
    """A `CharCNN` for inference; highways and projection are prepacked where the processor has such products
    and a matrix has at most `PREPACKED_WORD_WEIGHTS`.

    char_cnn (CharCNN): Constant from now on, in any precision.
    """

    @torch.no_grad()
    def __init__(self, char_cnn: CharCNN) -> None:
        self._char_cnn = char_cnn
        self._products: List[Product] = []
        self._steps: List[Step] = [self._highway(one) for one in char_cnn.highways]
        if char_cnn.projection is not None:
            self._steps.append(self._linear(char_cnn.projection.weight, char_cnn.projection.bias))

    @torch.no_grad()
    def __call__(self, char_ids: Tensor, lengths: Sequence[int]) -> Tensor:
        """char_ids (Tensor): Shape (U, C) int64.
        lengths (Sequence[int]): Ids of each word without padding.
        RETURNS (Tensor): Shape (U, P).
        """
        features = self._char_cnn.pool(char_ids, lengths)  # (U, F)
        for step in self._steps:
            features = step(features)
        return features

    def prepare(self) -> None:
        """Do now what would be done at the first product."""
        for product in self._products:
            product.prepare()

    def _highway(self, highway: Union[Highway, torch.nn.Module]) -> Step:
        if not isinstance(highway, Highway):  # quantized
            return highway
        scores = self._linear(highway.weight, highway.bias)
        return lambda features: open_gate(features, scores(features))

    def _linear(self, weight: Tensor, bias: Tensor) -> Step:
        """weight (Tensor): Shape (n_out, n_in). bias (Tensor): Shape (n_out,)."""
        if not has_packing(weight) or weight.numel() > PREPACKED_WORD_WEIGHTS:
            return lambda rows: torch.nn.functional.linear(rows, weight, bias)
        product = make_product(weight.t().unsqueeze(0), slice(0, 1))
        self._products.append(product)
        rows_bias = bias.detach().view(1, 1, -1)
        return lambda rows: product(rows.unsqueeze(0), rows_bias)[0]
