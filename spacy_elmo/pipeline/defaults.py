"""The component's default config, and checks of its settings."""

import math
from typing import Any, Dict, Optional

from thinc.api import Config

from .._choices import COMPONENT_NORMS, DTYPES, STORES
from ..errors import Errors

DEFAULT_CONFIG = """
[elmo]
# Weights of the biLM: a packaged name, or a folder, zip or file in any known format; null for the packaged biLM, and
# where a loader in [initialize] gives them. A saved pipeline contains its weights and does not read the path again.
weights = null
# Vectors stored on a Doc: "mixed", "layers" (mixed on access) or "both". If there are listeners, layers are always
# stored, since listeners read them from the Doc.
store = "both"
# Precision of the stored vectors: "float32" or "float16".
dtype = "float32"
# Name of the extension attributes: doc._.elmo, doc._.elmo_layers; a second ELMo component needs another.
prefix = "elmo"
# true: also set doc.tensor, and use it for vector and similarity of Doc, span and token.
set_vectors = false
# true: a merged token gets the mean of the vectors of its original tokens; false: reading its vector is an error.
average_merged = false

# The model that computes layers; the function has the defaults of its settings. Weights come from
# [initialize.components.elmo.loader]; without it from the packaged biLM.
[elmo.model]
@architectures = "spacy-elmo.ElmoModel.v1"

# The component's own mix of the layers, for doc._.elmo; it is not trained. Listeners have their own.
[elmo.mix]
# Raw weights, one per layer, the token layer first; null for the mean of the layers.
weights = null
# Scale of the mixed vectors.
gamma = 1.0
# Norm of each layer before the mix: "token" (mean 0, variance 1 over the values of a token) or null.
layer_norm = null
"""
DEFAULT_BLOCKS = Config().from_str(DEFAULT_CONFIG)["elmo"]


def check_settings(mix: Dict[str, Any], store: str, dtype: str, prefix: str, weights: Optional[str]) -> None:
    """RAISES (ValueError): EL060 with all problems."""
    known = ("weights", "gamma", "layer_norm")
    checks = [
        (set(mix) == set(known), f"mix has {sorted(mix)}, should have {known}"),
        (
            mix["layer_norm"] in COMPONENT_NORMS,
            f"mix.layer_norm is '{mix['layer_norm']}', should be one of {COMPONENT_NORMS}: vectors of a Doc must not "
            "depend on the other Docs of a batch",
        ),
        (
            mix["weights"] is None or (_is_list(mix["weights"]) and all(map(_is_number, mix["weights"]))),
            f"mix.weights is {mix['weights']!r}, should be a list of numbers, one per layer, or null",
        ),
        (_is_number(mix["gamma"]), f"mix.gamma is {mix['gamma']!r}, should be a number"),
        (store in STORES, f"store is '{store}', should be one of {STORES}"),
        (dtype in DTYPES, f"dtype is '{dtype}', should be one of {DTYPES}"),
        (weights is None or bool(weights.strip()), "weights is empty, should be a path or a packaged name, or null"),
        (prefix.isidentifier(), f"prefix is '{prefix}', should be a Python name"),
    ]
    problems = "; ".join(text for is_fine, text in checks if not is_fine)
    if problems:
        raise ValueError(Errors.EL060.format(block="ELMo component", problems=problems))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))
