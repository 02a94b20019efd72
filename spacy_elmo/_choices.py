"""Allowed values of settings and types of arguments that several rings share."""

import os
from typing import Union

# A path as Python programs have it: text, bytes (`os.fsencode`), `pathlib.Path`. `os.fsdecode` makes it text.
AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
# State of the LSTMs at the beginning of a sequence.
STATES = ("reset", "steady", "carry")
# Part of a Doc that the biLM reads as one sequence.
CONTEXTS = ("auto", "sentences", "doc")
# Data types of stored values: vectors on Docs and in files.
DTYPES = ("float32", "float16")
# Precision of matrix products in inference and in pretraining.
PRECISIONS = ("float32", "bfloat16", "float16", "int8")
TRAINING_PRECISIONS = ("float32", "bfloat16", "float16")
# Layer norms of the component's own mix. Batch norms are excluded: a vector must not depend on other Docs of the batch.
COMPONENT_NORMS = (None, "token")
# Norms of a learned mix: name -> epsilon under the root. "token" is over the values of one token; the other two are
# over all tokens of the batch, as in the reference programs, which differ in epsilon and in whether BOS and EOS are
# among the tokens: that changes values by up to 0.6.
LAYER_NORMS = {"token": 1e-12, "bilm-tf": 1e-12, "allennlp": 1e-13}
# Raw weight of a layer with share 0, in place of minus infinity: all layers have equal shares if all are dropped.
DROPPED = -1e13
