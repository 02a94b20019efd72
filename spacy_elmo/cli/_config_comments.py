"""Comments for the ELMo blocks of a pipeline config, since Thinc writes configs without comments."""

import re
from typing import Dict, List, Tuple

from ..pipeline.defaults import DEFAULT_CONFIG

LISTENER = '@architectures = "spacy-elmo.ElmoListener.v1"'

# Comments of the settings, in the form of a config. Those of [elmo] and [elmo.mix] are in pipeline/defaults.py.
COMMENTS = """
[paths]
# The biLM: name of a packaged biLM, or path of weights in any known format. null: pass --paths.bilm when you train.
bilm =

[nlp]
# Docs per batch of `nlp.pipe`; their layers are in memory together.
batch_size =

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

# The tok2vec of this component: it mixes the layers of the biLM with its own weights, Peters et al. (2018), eq. 1.
[listener]
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
    RETURNS (str): The config with comments above the settings of ELMo. Of the listeners, only the first has comments.
    """
    comments = {**_read_comments(DEFAULT_CONFIG), **_read_comments(COMMENTS)}
    listeners = re.findall(rf"^\[(.+)\]\n{re.escape(LISTENER)}$", config, flags=re.MULTILINE)
    lines: List[str] = []
    block = ""
    for line in config.splitlines():
        if line.startswith("["):
            block = line.strip("[]")
        explained = listeners if line.startswith("[") else listeners[:1]
        lines += comments.get((_name_of(block, explained), _key_of(line)), [])
        lines.append(line)
    return "\n".join(lines) + "\n"


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


def _name_of(block: str, listeners: List[str]) -> str:
    return "listener" if block in listeners else block.removeprefix("components.")
