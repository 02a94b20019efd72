"""The values that a setting may have, wherever it is set."""

# State of the LSTMs at the beginning of a sequence.
STATES = ("reset", "steady", "carry")
# What the biLM reads as one sequence of a Doc.
CONTEXTS = ("auto", "sentences", "doc")
# Types of stored numbers: vectors on Docs and in files.
DTYPES = ("float32", "float16")
# Of matrix products: in inference, and in pretraining.
PRECISIONS = ("float32", "bfloat16", "float16", "int8")
TRAINING_PRECISIONS = ("float32", "bfloat16", "float16")
# What a Doc keeps: the mixed vectors, the layers, or both.
STORES = ("mixed", "layers", "both")
# Layer norms of the component's own mix: vectors of a Doc must not depend on the other Docs of a batch.
COMPONENT_NORMS = (None, "token")
