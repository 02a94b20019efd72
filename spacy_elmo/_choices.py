"""Allowed values of settings that several rings share."""

# State of the LSTMs at the beginning of a sequence.
STATES = ("reset", "steady", "carry")
# Part of a Doc that the biLM reads as one sequence.
CONTEXTS = ("auto", "sentences", "doc")
# Data types of stored values: vectors on Docs and in files.
DTYPES = ("float32", "float16")
# Precision of matrix products in inference and in pretraining.
PRECISIONS = ("float32", "bfloat16", "float16", "int8")
TRAINING_PRECISIONS = ("float32", "bfloat16", "float16")
# Vectors stored on a Doc: the mixed vectors, the layers, or both.
STORES = ("mixed", "layers", "both")
# Layer norms of the component's own mix. Batch norms are excluded: a vector must not depend on other Docs of the batch.
COMPONENT_NORMS = (None, "token")
