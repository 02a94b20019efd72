"""The character CNN and the token embedder with constant weights: the vector of a word is bit-identical in every batch.

The order of sums in BLAS libraries depends on the number of rows, so the vector of a word would depend on the other
words computed with it, and on the cache. This does not hold for prepacked products, see `PackedProduct`.
"""

from typing import Any, Callable, List, Protocol, Sequence

import torch
from torch import Tensor

from ..bilm.char_cnn import CharCNN, TokenEmbedder
from ..bilm.layers import Highway, apply_highway
from ..bilm.model import BiLMNetwork
from .dispatch import PREPACKED_WORD_WEIGHTS
from .products import Product, has_packing, make_product

Step = Callable[[Tensor], Tensor]


class ConstantWords(Protocol):
    """Computes word vectors with constant weights."""

    def __call__(self, ids: Tensor, lengths: Sequence[int]) -> Tensor:
        """ids (Tensor): Shape (U, C) int64.
        lengths (Sequence[int]): Number of character ids of each word without padding.
        RETURNS (Tensor): Shape (U, P).
        """

    def prepare(self) -> None:
        """Pack the weights now instead of at the first product."""


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
    def __call__(self, ids: Tensor, lengths: Sequence[int]) -> Tensor:
        """See `ConstantWords.__call__`."""
        features = self._char_cnn.pool(ids, lengths)  # (U, F)
        for step in self._steps:
            features = step(features)
        return features

    def prepare(self) -> None:
        """See `ConstantWords.prepare`."""
        for product in self._products:
            product.prepare()

    def _step(self, module: torch.nn.Module) -> Step:
        if isinstance(module, torch.nn.Linear):
            return self._linear(module)
        if not isinstance(module, Highway):  # quantized, or a layer norm
            return module
        scores = self._linear(module)
        return lambda features: apply_highway(features, scores(features))

    def _linear(self, module: Any) -> Step:
        return constant_linear(module.weight, module.bias, self._products)


class ConstantTokenEmbedder:
    """A `TokenEmbedder` for inference. Like `ConstantCharCNN`, but an LSTM over characters is PyTorch's.

    embedder (TokenEmbedder): Its weights must not change afterwards; in any precision.
    """

    @torch.no_grad()
    def __init__(self, embedder: TokenEmbedder) -> None:
        self._embedder = embedder
        self._char_cnn = None if embedder.char_cnn is None else ConstantCharCNN(embedder.char_cnn)
        self._products: List[Product] = []
        self._project = constant_linear(embedder.projection.weight, embedder.projection.bias, self._products)

    @torch.no_grad()
    def __call__(self, ids: Tensor, lengths: Sequence[int]) -> Tensor:
        """See `ConstantWords.__call__`."""
        features = [] if self._embedder.word_embedding is None else [self._embedder.word_vectors(ids)]
        if self._char_cnn is not None:
            features.append(self._char_cnn(ids[:, 1:], lengths))
        elif self._embedder.char_lstm is not None:
            features.append(self._embedder.char_lstm(ids[:, 1:], lengths))
        return self._project(torch.cat(features, dim=1))

    def prepare(self) -> None:
        """See `ConstantWords.prepare`."""
        if self._char_cnn is not None:
            self._char_cnn.prepare()
        for product in self._products:
            product.prepare()


def make_constant_words(network: BiLMNetwork) -> ConstantWords:
    """network (BiLMNetwork): It reads characters; its weights must not change afterwards.
    RETURNS (ConstantWords): Computes its word vectors.
    """
    if network.token_embedder is not None:
        return ConstantTokenEmbedder(network.token_embedder)
    return ConstantCharCNN(network.char_cnn)  # type: ignore[arg-type]  # not None without a token embedder


def constant_linear(weight: Tensor, bias: Tensor, products: List[Product]) -> Step:
    """weight (Tensor): Shape (n_out, n_in).
    bias (Tensor): Shape (n_out,).
    products (List[Product]): A prepacked product is added here.
    RETURNS (Step): Maps rows (U, n_in) to (U, n_out).
    """
    if not has_packing(weight) or weight.numel() > PREPACKED_WORD_WEIGHTS:
        return lambda rows: torch.nn.functional.linear(rows, weight, bias)
    product = make_product(weight.t().unsqueeze(0), slice(0, 1))
    products.append(product)
    rows_bias = bias.detach().view(1, 1, -1)
    return lambda rows: product(rows.unsqueeze(0), rows_bias)[0]
