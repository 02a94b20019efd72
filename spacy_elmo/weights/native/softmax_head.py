"""Conversion of the softmax (full, shared with the word table, or adaptive) to the arrays of a native file and back."""

from typing import Any, Dict, Mapping, Optional, Sequence

import torch
from torch import from_numpy, nn

from ...bilm.config import BiLMConfig
from ...bilm.lm_head import AdaptiveHead, LMHead
from ...bilm.model import BiLMNetwork
from ..parts import build_head, is_head_shared, to_arrays
from ..tensor_map import Array, Shape

WEIGHT_KEY, BIAS_KEY = "softmax.weight", "softmax.bias"
ADAPTIVE_PREFIX = "adaptive."


def head_record(head: Optional[LMHead]) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Settings of the softmax in config.json, empty if the arrays suffice."""
    return {"adaptive_softmax": head.settings} if isinstance(head, AdaptiveHead) else {}


def head_to_arrays(network: BiLMNetwork, head: Optional[LMHead]) -> Dict[str, Array]:
    """RETURNS (Dict[str, Array]): By key of the file; without a shared weight, which belongs to the network."""
    if head is None:
        return {}
    if isinstance(head, AdaptiveHead):
        return {ADAPTIVE_PREFIX + key: array for key, array in to_arrays(head).items()}
    arrays = to_arrays(head)
    shared = is_head_shared(network, head)
    return {BIAS_KEY: arrays["bias"]} if shared else {WEIGHT_KEY: arrays["weight"], BIAS_KEY: arrays["bias"]}


def empty_adaptive_head(record: Mapping[str, Any], width: int) -> Optional[AdaptiveHead]:
    """record (Mapping[str, Any]): config.json.
    width (int): P.
    RETURNS (Optional[AdaptiveHead]): A head without weights; None if the model has another softmax.
    RAISES (ValueError, TypeError): For invalid settings.
    """
    settings = record.get("adaptive_softmax")
    if settings is None:
        return None
    with torch.device("meta"):
        return AdaptiveHead(width=width, **settings)


def head_shapes(
    config: BiLMConfig, adaptive: Optional[AdaptiveHead], arrays: Mapping[str, Array], is_shared: bool
) -> Dict[str, Shape]:
    """RETURNS (Dict[str, Shape]): Expected shapes; the softmax is optional, but must be complete."""
    if adaptive is not None:
        return {ADAPTIVE_PREFIX + key: tuple(tensor.shape) for key, tensor in adaptive.state_dict().items()}
    if WEIGHT_KEY not in arrays and BIAS_KEY not in arrays:
        return {}
    n_words = n_rows(arrays, (BIAS_KEY, WEIGHT_KEY)) if not is_shared else config.n_words or 0
    shapes: Dict[str, Shape] = {BIAS_KEY: (n_words,)}
    if not is_shared:
        shapes[WEIGHT_KEY] = (n_words, config.projection_width)
    return shapes


def head_from_arrays(
    network: BiLMNetwork, adaptive: Optional[AdaptiveHead], arrays: Mapping[str, Array], is_shared: bool
) -> Optional[LMHead]:
    """arrays (Mapping[str, Array]): float32, with the shapes of `head_shapes`.
    RETURNS (Optional[LMHead]): In evaluation mode.
    """
    if adaptive is not None:
        state = {key: from_numpy(arrays[ADAPTIVE_PREFIX + key]) for key in adaptive.state_dict()}
        adaptive.load_state_dict(state, assign=True)
        return adaptive.eval()
    if BIAS_KEY not in arrays:
        return None
    weight = network.word_embedding if is_shared else None
    return build_head(nn.Parameter(from_numpy(arrays[WEIGHT_KEY])) if weight is None else weight, arrays[BIAS_KEY])


def n_rows(arrays: Mapping[str, Array], keys: Sequence[str]) -> int:
    """RETURNS (int): Rows of the first of these arrays that exists, 0 if none does."""
    sizes = [len(arrays[key]) for key in keys if key in arrays and arrays[key].shape]
    return sizes[0] if sizes else 0
