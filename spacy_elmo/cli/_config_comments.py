"""Comments for the ELMo blocks of a pipeline config: Thinc writes configs without."""

import re
from typing import Dict, List, Tuple

from ..pipeline.defaults import DEFAULT_CONFIG

LISTENER = '@architectures = "spacy-elmo.ElmoListener.v1"'

# What the settings mean, in the form of a config. [elmo] and [elmo.mix] are in pipeline/defaults.py.
COMMENTS = """
[paths]
# The biLM: name of a packaged one, or path to weights in any known format. null: give --paths.bilm when you train.
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
# LSTM state at the start of a sequence: "reset" (zeros), "steady" (see docs) or "carry" (from the sequence before).
state =
# Maximum sequence length in tokens; longer sequences are split into overlapping windows.
max_tokens =
# Overlap of two consecutive windows in tokens.
overlap =
# Tokens per batch; limits the working memory.
batch_tokens =
# Cache in MB for the vectors of words.
word_cache_mb =
# Disk cache in MB for layers of training Docs, which later epochs read; 0 for none.
layer_cache_mb =
# Precision of the cached layers: "float32" or "float16".
layer_cache_dtype =

# The tok2vec of this component: the layers of the biLM with a mix of its own, Peters et al. (2018), eq. 1.
[listener]
# Name of the ELMo component; "*" for the last one before this.
upstream =
# Raw weights w at the start, one per layer, the token layer first; null for equal shares.
initial_weights =
# Whether w is learned.
learn_weights =
# Scale of the mix at the start.
initial_gamma =
# Whether the scale is learned.
learn_gamma =
# Chance that a layer is left out of the mix for one batch, 0 to below 1.
layer_dropout =
# Strength of the pull of w towards equal shares.
weights_l2 =
# Norm of each layer before the mix: "token" (mean 0, variance 1 over the values of a token), the references' batch
# forms "bilm-tf" and "allennlp", or null.
layer_norm =
# Dropout of the mixed vector, 0 to below 1.
output_dropout =
# Width of a linear layer after the mix; null for none.
projection_width =

# Opens the biLM when training starts; a trained pipeline has its own copy.
[initialize.components.elmo.loader]
# Name or path, see [paths].
path =
# Options file, if it is not next to the weights.
options =
# Weights file, in place of `path`.
weights =
# Vocabulary, one word a line; only word-based biLMs need one.
vocab =
# File of cached word vectors, in the order of `vocab`.
token_embeddings =
"""


def add_comments(config: str) -> str:
    """config (str): A pipeline config as Thinc writes it.
    RETURNS (str): The same with comments above the settings of ELMo; those of a listener above the first one only.
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
