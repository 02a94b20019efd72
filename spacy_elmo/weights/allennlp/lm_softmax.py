"""The softmax of a language model of AllenNLP. Its rows are the ids of the vocabulary less one, since padding has id 0.

AllenNLP counts padding as a word, too: the softmax has one more row, the last, which is never a target but takes part
in the normalization. It is kept, so that losses are equal to AllenNLP's.
"""

import warnings
from typing import Dict, Mapping, Optional, Sequence, Tuple

import numpy as np
from torch import from_numpy, nn

from ...bilm.lm_head import SoftmaxHead
from ...errors import Warnings
from ...text.vocabulary import UNKNOWN, Vocabulary
from ..parts import as_float32, build_head, check_vocabulary
from ..tensor_map import Array, Shape

SOFTMAX = "_softmax_loss."
OOV, PADDING = "@@UNKNOWN@@", "@@PADDING@@"
# Parameters; or embeddings with sparse gradients, whose bias is a column.
WEIGHTS = (f"{SOFTMAX}softmax_w", f"{SOFTMAX}softmax_w.weight")


def softmax_shapes(arrays: Mapping[str, Array], width: int, *, is_sampled: bool) -> Dict[str, Shape]:
    """arrays (Mapping[str, Array]): The tensors of a model.
    width (int): P.
    is_sampled (bool): Whether rows are words (V, P), as in `SampledSoftmaxLoss`, not columns, as in `SoftmaxLoss`.
    RETURNS (Dict[str, Shape]): Expected shapes by name, empty without a softmax.
    """
    if not any(name.startswith(SOFTMAX) for name in arrays):
        return {}
    weight = _weight_name(arrays)
    shape = arrays[weight].shape if weight in arrays else ()
    n_rows = (shape[0] if is_sampled else shape[-1]) if shape else 0
    bias_shape = (n_rows, 1) if weight.endswith(".weight") else (n_rows,)
    return {weight: (n_rows, width) if is_sampled else (width, n_rows), _bias_name(weight): bias_shape}


def read_softmax(
    arrays: Mapping[str, Array], words: Optional[Sequence[str]], where: str, *, is_sampled: bool
) -> Tuple[Optional[SoftmaxHead], Optional[Vocabulary]]:
    """Read the softmax and its vocabulary.

    arrays (Mapping[str, Array]): The tensors of a model, of the shapes above.
    words (Optional[Sequence[str]]): The vocabulary without padding, in the order of the ids.
    where (str): Path of the model, for messages.
    is_sampled (bool): See above.
    RETURNS (Tuple[Optional[SoftmaxHead], Optional[Vocabulary]]): None without a softmax, and with WL313 where the words
        lack the sentence boundaries or do not fit.
    """
    name = _weight_name(arrays)
    if name not in arrays:
        return None, None
    weight = arrays[name] if is_sampled else arrays[name].T
    bias = arrays[_bias_name(name)].reshape(-1)
    try:
        vocabulary = Vocabulary([*(UNKNOWN if word == OOV else word for word in words or []), PADDING])
        check_vocabulary(vocabulary, {"the softmax": len(bias)})
    except ValueError as error:
        warnings.warn(Warnings.WL313.format(path=where, reason=error), stacklevel=2)
        return None, None
    return build_head(nn.Parameter(from_numpy(np.ascontiguousarray(as_float32(weight)))), as_float32(bias)), vocabulary


def _weight_name(arrays: Mapping[str, Array]) -> str:
    return next((name for name in WEIGHTS if name in arrays), WEIGHTS[0])


def _bias_name(weight: str) -> str:
    return weight.replace("softmax_w", "softmax_b")
