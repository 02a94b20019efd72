"""Read the transformer biLM of an archive of AllenNLP, such as `transformer-elmo-2019.01.10.tar.gz`.

Layer 0 is the word vector twice, without positions; layer k is `[forward_k; backward_k]`, as in the
`bidirectional_lm_token_embedder` of allennlp-models.
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np
from torch import from_numpy, nn

from ...bilm.config import BiLMConfig
from ...bilm.lm_head import SoftmaxHead
from ...bilm.transformer import sinusoids
from ...encoding.facade import BiLM
from ...errors import Errors
from ...text.vocabulary import UNKNOWN, Vocabulary
from ..bilm_tf.layout import state_shapes
from ..limits import listed
from ..parts import as_float32, build_head, build_network
from ..tensor_map import Array, Shape, find_misfits, import_arrays
from .transformer_config import MAX_POSITIONS, LanguageModelConfig, read_language_model_config
from .transformer_layout import POSITIONS, SOFTMAX, UNUSED, are_sinusoids, transformer_datasets

UNKNOWN_OF_ALLENNLP = "@@UNKNOWN@@"
PADDING_ROWS = 1  # AllenNLP counts the padding of its vocabulary, but its softmax does not predict it: the last row


def read_transformer_lm(
    config: Mapping[str, Any], arrays: Mapping[str, Array], vocabulary: Optional[Sequence[str]] = None
) -> BiLM:
    """Convert a transformer language model to a biLM.

    config (Mapping[str, Any]): The parsed config.json of the archive.
    arrays (Mapping[str, Array]): The state dict in weights.th, in NumPy.
    vocabulary (Optional[Sequence[str]]): Lines of vocabulary/tokens.txt; without them the softmax is left out.
    RETURNS (BiLM): float32, in evaluation mode.
    RAISES (ValueError): EL344 with all problems of config, tensors and vocabulary.
    """
    settings = read_language_model_config(config)
    problems = list(settings.problems)
    words: Optional[Vocabulary] = None
    if settings.bilm is not None:
        problems += _array_problems(settings, settings.bilm, arrays)
    try:
        words = None if vocabulary is None else _read_words(vocabulary)
    except ValueError as error:
        problems.append(str(error))
    head = _head_arrays(arrays, settings.is_sampled)
    if words is not None and head and "weight" in head and len(head["weight"]) != len(words) + PADDING_ROWS:
        n_rows = len(head["weight"]) - PADDING_ROWS
        problems.append(f"the vocabulary has {len(words)} words, but the softmax has rows for {n_rows}")
    if problems or settings.bilm is None:
        raise ValueError(Errors.EL344.format(n_problems=len(problems), problems=listed(problems)))
    table = transformer_datasets(settings.bilm, settings.embedder)
    network = build_network(settings.bilm, import_arrays(table, arrays, state_shapes(settings.bilm)))
    return BiLM(
        network,
        vocabulary=words,
        head=_build_head(head) if words is not None and head else None,
        meta={"source_format": "allennlp language_model"},
    )


def _array_problems(settings: LanguageModelConfig, config: BiLMConfig, arrays: Mapping[str, Array]) -> List[str]:
    wanted: Dict[str, Shape] = {part.name: part.shape for part in transformer_datasets(config, settings.embedder)}
    known = {name: array for name, array in arrays.items() if name not in (POSITIONS, UNUSED)}
    softmax = {name: array for name, array in known.items() if name.startswith(SOFTMAX)}
    problems = find_misfits({**wanted, **_softmax_shapes(softmax, config, settings.is_sampled)}, known)
    positions = arrays.get(POSITIONS)
    table = sinusoids(MAX_POSITIONS, config.projection_width).numpy()
    if positions is not None and not are_sinusoids(positions, table):
        problems.append(f"{POSITIONS} has other values than sines and cosines, which cannot be read")
    return problems


def _softmax_shapes(softmax: Mapping[str, Array], config: BiLMConfig, is_sampled: bool) -> Dict[str, Shape]:
    """Sampled: rows of words, as parameters or as embeddings with sparse gradients. Full: columns of words."""
    if not softmax:
        return {}
    p = config.projection_width
    names = {"softmax_w": "softmax_b", "softmax_w.weight": "softmax_b.weight"}
    weight, bias = next(((w, b) for w, b in names.items() if SOFTMAX + w in softmax), ("softmax_w", "softmax_b"))
    shape = softmax[SOFTMAX + weight].shape if SOFTMAX + weight in softmax else ()
    n_rows = (shape[0] if is_sampled else shape[-1]) if shape else 0
    return {
        SOFTMAX + weight: (n_rows, p) if is_sampled else (p, n_rows),
        SOFTMAX + bias: (n_rows, 1) if bias.endswith(".weight") else (n_rows,),
    }


def _head_arrays(arrays: Mapping[str, Array], is_sampled: bool) -> Dict[str, Array]:
    """RETURNS (Dict[str, Array]): "weight" (V, P) and "bias" (V,), empty without a softmax."""
    found: Dict[str, Array] = {}
    for name, array in arrays.items():
        if name.startswith(SOFTMAX + "softmax_w") and array.ndim == 2:
            found["weight"] = array if is_sampled else array.T
        elif name.startswith(SOFTMAX + "softmax_b"):
            found["bias"] = array.reshape(-1)
    return found


def _build_head(head: Mapping[str, Array]) -> SoftmaxHead:
    weight, bias = (as_float32(head[name][:-PADDING_ROWS]) for name in ("weight", "bias"))
    return build_head(nn.Parameter(from_numpy(np.ascontiguousarray(weight))), bias)


def _read_words(lines: Sequence[str]) -> Vocabulary:
    """RAISES (ValueError): EL003 if a special word is missing."""
    words = [UNKNOWN if line.rstrip("\r\n") == UNKNOWN_OF_ALLENNLP else line for line in lines]
    return Vocabulary.from_lines(words)
