"""Language models of AllenNLP as biLMs: archives of `language_model` and `bidirectional-language-model`.

In the transformer (`transformer-elmo-2019.01.10.tar.gz`) layer 0 is the word vector twice, without positions, and layer
k is `[forward_k; backward_k]`, as in the `bidirectional_lm_token_embedder` of allennlp-models.
"""

from typing import Any, Iterable, List, Mapping, Optional

from ...bilm.config import BiLMConfig
from ...bilm.transformer import sinusoids
from ...encoding.facade import BiLM
from ...errors import Errors
from ..bilm_tf.layout import state_shapes
from ..limits import listed, shorten
from ..parts import build_network
from ..tensor_map import Array, find_misfits, import_arrays
from .lm_config import CONTEXTUALIZERS, MAX_POSITIONS, LanguageModelConfig, read_language_model_config
from .lm_layout import (
    FIRST_BIAS,
    POSITIONS,
    SECOND_BIAS,
    UNUSED,
    are_sinusoids,
    language_model_datasets,
    sum_biases,
)
from .lm_softmax import read_softmax, softmax_shapes

CONTEXTUALIZER = "_contextualizer."


def is_language_model(names: Iterable[str]) -> bool:
    """names (Iterable[str]): Names in a state dict.
    RETURNS (bool): Whether it is that of a language model: a contextualizer over an embedder.
    """
    return any(name.startswith(CONTEXTUALIZER) for name in names)


def read_language_model(config: Any, arrays: Mapping[str, Array], words: Optional[List[str]], where: str) -> BiLM:
    """Read a language model of AllenNLP as a biLM.

    config (Any): The config of the archive.
    arrays (Mapping[str, Array]): Its state dict.
    words (Optional[List[str]]): Its vocabulary without padding, in the order of the ids.
    where (str): Path of the state dict, for messages.
    RETURNS (BiLM): The model, float32, with its softmax. This is left out with WL313 if the words lack the sentence
        boundaries or do not fit.
    RAISES (ValueError): EL316 if the contextualizer cannot be read, EL344 with all problems of config and tensors.
    """
    _check_contextualizer(config, where)
    settings = read_language_model_config(config)
    problems = list(settings.problems)
    if settings.bilm is not None:
        problems += _array_problems(settings, settings.bilm, arrays)
    if problems or settings.bilm is None:
        raise ValueError(Errors.EL344.format(path=where, n_problems=len(problems), problems=listed(problems)))
    table = language_model_datasets(settings.bilm, settings.embedder)
    network = build_network(settings.bilm, import_arrays(table, sum_biases(arrays), state_shapes(settings.bilm)))
    head, vocabulary = read_softmax(arrays, words, where, is_sampled=settings.is_sampled)
    return BiLM(network, vocabulary=vocabulary, head=head, meta={"source_format": "allennlp"})


def _check_contextualizer(config: Any, where: str) -> None:
    kind = config
    for key in ("model", "contextualizer", "type"):
        kind = kind.get(key) if isinstance(kind, Mapping) else None
    if not isinstance(kind, str) or kind not in CONTEXTUALIZERS:
        found = "no config.json with model.contextualizer.type" if kind is None else shorten(repr(kind), 80)
        raise ValueError(Errors.EL316.format(path=where, found=found, known=", ".join(CONTEXTUALIZERS)))


def _array_problems(settings: LanguageModelConfig, config: BiLMConfig, arrays: Mapping[str, Array]) -> List[str]:
    wanted = {part.name: part.shape for part in language_model_datasets(config, settings.embedder)}
    wanted.update({name.replace(FIRST_BIAS, SECOND_BIAS): shape for name, shape in wanted.items()})
    wanted.update(softmax_shapes(arrays, config.projection_width, is_sampled=settings.is_sampled))
    problems = find_misfits(wanted, {name: arrays[name] for name in arrays if name not in (POSITIONS, UNUSED)})
    positions = arrays.get(POSITIONS)
    table = sinusoids(MAX_POSITIONS, config.projection_width).numpy()
    if positions is not None and not are_sinusoids(positions, table):
        problems.append(f"{POSITIONS} has other values than sines and cosines, which cannot be read")
    return problems
