"""Comments for the ELMo blocks of a pipeline config, since Thinc writes configs without comments."""

import re
from typing import Dict, List, Set, Tuple

from ..pipeline.elmo import DEFAULT_CONFIG

# Blocks of these architectures stand anywhere in a config: their comments are found by name, not by block.
ARCHITECTURES = ("ElmoTaskEncoder", "BiLSTMEncoder", "TextCatReduce", "ElmoListener")

# Comments of the settings, in the form of a config. Those of [elmo] and [elmo.mix] are in pipeline/defaults.py.
COMMENTS = """
[paths]
# The biLM: name of a packaged biLM, or path of weights in any known format. null: pass --paths.bilm when you train.
bilm =
# The knowledge base of the entity linker, a folder that `kb.to_disk` wrote: pass --paths.kb when you train.
kb =

[nlp]
# Docs per batch of `nlp.pipe`; their layers are in memory together.
batch_size =

[entity_linker]
# Width of the entity vectors, that of the knowledge base.
entity_vector_length =

[training]
# Components that annotate Docs during training, for those behind them; an entity linker needs sentences.
annotating_components =

[elmo.model]
# Sizes of the biLM; null to take them from the weights.
bilm =
# Whether the biLM is frozen; false trains it with the components that listen.
frozen =
# Precision of the biLM: "float32", "bfloat16", "int8" (CPUs; faster if large, less exact) or "float16" (GPUs).
precision =
# Input sequences: "sentences", "doc", or "auto" for sentences if boundaries are set, else the Doc.
contexts =
# LSTM state at the start of a sequence: "reset" (zeros), "steady" (see docs) or "carry" (from the previous sequence).
state =
# Maximum sequence length in tokens; longer sequences are split into overlapping windows.
max_tokens =
# Overlap of two consecutive windows in tokens.
overlap =
# Tokens per batch; limits the working memory.
batch_tokens =
# Maximum size of the cache of word vectors in MB.
word_cache_mb =
# Maximum size in MB of the disk cache of layers of training Docs, for later epochs; 0 for none.
layer_cache_mb =
# Precision of the cached layers: "float32" or "float16".
layer_cache_dtype =
# How a biLM that is not frozen is trained, a block with @misc = "spacy-elmo.FineTuning.v1"; null trains all its layers
# alike.
fine_tuning =

# ELMo at the input or the output of this component's encoder, or both: Peters et al. (2018), sec. 3.3 and 5.2.
[ElmoTaskEncoder]
# Dropout of the encoder's input, 0 to below 1; null for the dropout of [training].
dropout =
# ELMo at the encoder's input, or null for none.
elmo_input =
# ELMo at the encoder's output, or null for none.
elmo_output =

# A bidirectional LSTM over each Doc.
[BiLSTMEncoder]
# Width of the output, both directions together.
width =
# Number of layers.
depth =
# Dropout of the output of each layer, 0 to below 1; null for the dropout of [training].
dropout =

# Pools the token vectors of a Doc and scores the result: `spacy.TextCatReduce.v1` for batches with empty Docs, too.
[TextCatReduce]
# Whether each Doc has exactly one category.
exclusive_classes =
# Whether to use the first vector.
use_reduce_first =
# Whether to use the last vector.
use_reduce_last =
# Whether to use the maximum of each value.
use_reduce_max =
# Whether to use the mean of the vectors.
use_reduce_mean =
# Number of categories; null to infer it from the data.
nO =

# The layers of the biLM with a mix of this component's own: Peters et al. (2018), eq. 1.
[ElmoListener]
# Name of the ELMo component; "*" for the nearest one upstream.
upstream =
# Initial weights w before the softmax, one per layer, the token layer first; null for equal weights.
initial_weights =
# Whether to train w.
learn_weights =
# Initial scale gamma of the mix.
initial_gamma =
# Whether to train the scale gamma.
learn_gamma =
# Layer dropout: probability of leaving a layer out of the mix of a batch, 0 to below 1.
layer_dropout =
# L2 penalty on w; it regularizes towards equal weights.
weights_l2 =
# Layer norm before the mix: "token" (mean 0, variance 1 over the values of a token), the reference implementations'
# batch norms "bilm-tf" and "allennlp", or null.
layer_norm =
# Dropout probability of the mixed vector, 0 to below 1.
output_dropout =
# Width of a linear projection after the mix; null for none.
projection_width =
# "learned"; "fixed" (w stays as initial_weights gives it); "mean" of all layers; "top" (the highest layer alone).
mix =

# Reads the knowledge base from disk.
[initialize.components.entity_linker.kb_loader]
# See [paths].
kb_path =

# Loads the biLM when training starts; a trained pipeline contains its own copy.
[initialize.components.elmo.loader]
# Name or path of the biLM, see [paths].
path =
# Options file, if it is not in the folder of the weights.
options =
# Weights file, instead of `path`.
weights =
# Vocabulary file, one word per line; needed only by biLMs with word input.
vocab =
# HDF5 file with precomputed token vectors, in the order of `vocab`.
token_embeddings =
"""


def add_comments(config: str) -> str:
    """config (str): A pipeline config written by Thinc.
    RETURNS (str): The config with comments above the settings of ELMo, for the first block of each architecture.
    """
    comments = {**_read_comments(DEFAULT_CONFIG), **_read_comments(COMMENTS)}
    names = _find_architectures(config)
    explained: Set[str] = set()
    lines: List[str] = []
    block = name = ""
    for line in config.splitlines():
        if line.startswith("["):
            explained.add(name)
            block = line.strip("[]")
            name = names.get(block, block.removeprefix("components."))
        is_repeated = name in ARCHITECTURES and name in explained and not line.startswith("[")
        lines += [] if is_repeated else comments.get((name, _key_of(line)), [])
        lines.append(line)
    return "\n".join(lines) + "\n"


def _find_architectures(config: str) -> Dict[str, str]:
    """RETURNS (Dict[str, str]): Names in `ARCHITECTURES` by their blocks."""
    pattern = rf'^\[(.+)\]\n@architectures = "spacy-elmo\.({"|".join(ARCHITECTURES)})\.v\d+"$'
    return dict(re.findall(pattern, config, flags=re.MULTILINE))


def _read_comments(text: str) -> Dict[Tuple[str, str], List[str]]:
    """RETURNS (Dict[Tuple[str, str], List[str]]): The comment lines above a setting, or above a block: (block, "")."""
    found: Dict[Tuple[str, str], List[str]] = {}
    block, waiting = "", []
    for line in text.splitlines():
        if line.startswith("#"):
            waiting.append(line)
            continue
        if line.startswith("["):
            block = line.strip("[]")
        if waiting:
            found[block, _key_of(line)] = waiting
        waiting = []
    return found


def _key_of(line: str) -> str:
    """RETURNS (str): The name of a setting, "" for the line of a block, "-" for any other."""
    if line.startswith("["):
        return ""
    return line.partition(" =")[0] if " =" in line else "-"
