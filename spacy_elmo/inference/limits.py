"""Limits of the engine: sizes of batches, chunks and working memory, and what is worth another thread.

They change speed and memory, but no result; with the kernel not a bit. Where nothing else is said, they were measured
on UD EWT with two threads of an AMD EPYC.
"""

# Maximum number of lanes of a batch.
MAX_LANES = 256

# The kernel. Lanes of a thread up to which the input side of an upper layer is one product of all steps.
FEW_LANES = 4
# Multiply-adds of a product, and lanes of a stack, that are worth another thread.
MIN_THREAD_MULTIPLICATIONS = 2**22
MIN_THREAD_LANES = 6
# Multiply-adds between two checks for signals: an interrupt waits for them.
CALL_MULTIPLICATIONS = 2**34
# Bytes of a table of gates: of a biLM, and of the LSTM of a task, with a row for each token, which is used once.
GATE_BYTES = 32 * 2**20
TASK_GATE_BYTES = 4 * 2**20

# On a GPU: lanes of a batch, and sizes of a chunk that a CUDA graph computes: at most GRAPH_STEPS steps, fewer if the
# gates of a layer take more bytes; at least GRAPH_MIN_LANES lanes. On an H100 2,048 lanes were 1.1 times as fast as 512
# without graphs; not measured with them.
GPU_MAX_LANES = 1024
GRAPH_STEPS = 16
GRAPH_GATE_BYTES = 2**29
GRAPH_MIN_LANES = 16

# torch's products: bytes of gates of a layer for a chunk of steps, and its minimum number of steps.
CHUNK_GATE_BYTES = 32 * 2**20
MIN_CHUNK_STEPS = 4

# Sizes of arrays of the working memory are rounded up to multiples of the first (in floats). Arrays larger than the
# second are freed after use.
WORKSPACE_STEP = 2**18
WORKSPACE_MAX_KEPT = 2**26
# Tokens after which free memory of the heap is returned to the system, and the maximum share of time spent on it.
TRIM_TOKENS = 2**16
TRIM_TIME = 0.02
