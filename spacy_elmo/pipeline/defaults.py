"""The component's default config, and what its settings may be."""

import math
from typing import Any, Dict, Optional

from thinc.api import Config

from ..errors import Errors

STORES = ("mixed", "layers", "both")
DTYPES = ("float32", "float16")
COMPONENT_NORMS = (None, "token")

DEFAULT_CONFIG = """
[elmo]
# Weights of the biLM: a packaged name, or a folder, zip or file in any known format; null for the packaged biLM. A
# loader in [initialize] takes precedence. A saved pipeline holds its weights and does not read the path again.
weights = null
# What a Doc keeps: "mixed" vectors, "layers" (mixed when read) or "both". While components listen, layers are kept in
# any case: listeners read them from the Doc.
store = "both"
# Precision of what a Doc keeps: "float32" or "float16".
dtype = "float32"
# Name of the extension attributes: doc._.elmo, doc._.elmo_layers; a second ELMo component needs another.
prefix = "elmo"
# true: also fill doc.tensor, and let vector and similarity of Doc, span and token use it.
set_vectors = false
# true: a token that was merged of several gets the mean of their vectors; false: reading them is an error.
average_merged = false

# Docs to layers. Weights come from [initialize.components.elmo.loader], without one from the packaged biLM.
[elmo.model]
@architectures = "spacy-elmo.ElmoModel.v1"
# Sizes the weights must have (the settings of BiLMConfig); null takes those of the weights.
bilm = null
# true: the biLM stays as it is. false: it is trained with the components that listen.
frozen = true
# What a frozen biLM computes in: "float32", "bfloat16", "int8" (CPUs; faster if large, less exact) or "float16" (GPUs).
precision = "float32"
# What is read as one sequence: "sentences", "doc", or "auto" (sentences where boundaries are set, else the Doc).
contexts = "auto"
# State of the LSTMs where a sequence begins: "reset" (zeros), "steady" (settled) or "carry" (runs on through the Doc).
state = "reset"
# Longer sequences are cut into windows of this many tokens.
max_tokens = 512
# Tokens that neighbouring windows share.
overlap = 64
# Tokens computed at once; bounds the working memory.
batch_tokens = 8192
# Megabytes for the vectors of words seen before.
word_cache_mb = 64.0
# Megabytes of a temporary file with the layers of training Docs, which later epochs read (frozen biLM); 0 for none.
layer_cache_mb = 1024.0
# Precision of that file: "float32" or "float16".
layer_cache_dtype = "float32"

# The component's own mix of the layers, for doc._.elmo; it is not trained. Listeners have their own.
[elmo.mix]
# Raw weights, one per layer, the token layer first; null for the plain mean.
weights = null
# Scale of the mixed vectors.
gamma = 1.0
# Norm of each layer before the mix: "token" (mean 0, variance 1 over the values of a token) or null.
layer_norm = null
"""
DEFAULT_BLOCKS = Config().from_str(DEFAULT_CONFIG)["elmo"]


def check_settings(mix: Dict[str, Any], store: str, dtype: str, prefix: str, weights: Optional[str]) -> None:
    """RAISES (ValueError): EL060 with everything that is wrong."""
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
