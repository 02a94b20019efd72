"""AllenNLP models that contain an ELMo: the biLM and its trained scalar mixes, from a state dict and its config."""

import warnings
from typing import Dict, List, Mapping, Optional, Tuple

import numpy as np
from torch import from_numpy, nn

from ...bilm.config import BiLMConfig
from ...bilm.lm_head import SoftmaxHead
from ...bilm.model import BiLMNetwork
from ...encoding.facade import BiLM
from ...errors import Errors, Warnings
from ...text.vocabulary import Vocabulary
from ..bilm_tf.hdf5 import read_hdf5
from ..bilm_tf.layout import SOFTMAX_BIAS, SOFTMAX_WEIGHT, state_shapes
from ..limits import listed
from ..mixes import LoadedMix, mixes_to_meta
from ..parts import as_float32, build_head, build_network, check_vocabulary, read_vocabulary, table_rows
from ..sources import Source
from ..tensor_map import Array, find_misfits, import_arrays
from ..torch_files import read_state_dict
from .exact_bias import restore_forget_biases
from .files import AllenNLPFiles
from .language_model import is_language_model, read_language_model
from .layout import CACHE, Module, allennlp_datasets, bilm_tensors, find_modules
from .options import Block, describe, find_block, find_member, read_bilm_config

VOCAB_NAME = "vocab.txt"  # in archives that we write


def read_allennlp(
    files: AllenNLPFiles,
    *,
    part: Optional[str] = None,
    options: Optional[Source] = None,
    vocab: Optional[Source] = None,
    softmax: Optional[Source] = None,
) -> Tuple[BiLM, Tuple[LoadedMix, ...]]:
    """Read an AllenNLP model.

    files (AllenNLPFiles): Its files.
    part (Optional[str]): Name of the `Elmo` module in the model, needed if there are several.
    options (Optional[Source]): options.json of the biLM, if the archive does not have it.
    vocab (Optional[Source]): Vocabulary of the softmax.
    softmax (Optional[Source]): HDF5 file with the softmax.
    RETURNS (Tuple[BiLM, Tuple[LoadedMix, ...]]): The biLM, float32, and the mixes, which are in its meta data, too.
    RAISES (ValueError): EL020 to EL028, EL036, EL303, and EL310 to EL316, EL344.
    """
    place = files.place(files.weights)
    tensors = read_state_dict(files.sources[files.weights])
    modules = find_modules(tensors)
    if not modules and is_language_model(tensors):
        _refuse_extras_of_lm(place, part=part, options=options, vocab=vocab, softmax=softmax)
        return read_language_model(files.read_config(), tensors, _words_of(files), place), ()
    module = _choose(modules, part, place)
    config = files.read_config()
    block = find_block(config, module)
    own = {name: tensors[key] for name, key in bilm_tensors(module, tensors).items()}
    shapes = {name: array.shape for name, array in own.items()}
    bilm_config, source = read_bilm_config(files, module, block, shapes, options)
    mixes, mix_problems = _read_mixes(module, block, tensors, bilm_config.n_layers + 1)
    wanted = {dataset.name: dataset.shape for dataset in allennlp_datasets(bilm_config)}
    _refuse([*find_misfits(wanted, own), *mix_problems], place, source)
    _check_cached_words(module, block, tensors, place)
    original = _read_original(files, block)
    network = _build_network(bilm_config, own, original)
    head, vocabulary = _read_head(files, bilm_config, network, original, softmax, vocab)
    meta = {"source_format": "allennlp", **mixes_to_meta(mixes)}
    return BiLM(network, vocabulary=vocabulary, head=head, meta=meta), tuple(mixes)


def _choose(modules: List[Module], part: Optional[str], place: str) -> Module:
    if not modules:
        problem = "no tensor is named '..._token_embedder._char_embedding_weights', nor is it a language model"
        raise ValueError(Errors.EL314.format(path=place, problem=problem))
    if part is None and len(modules) > 1:
        names = describe(modules)
        raise ValueError(Errors.EL312.format(path=place, n=len(modules), names=names, first=modules[0].name))
    found = [module for module in modules if part is None or module.name == part]
    if not found:
        raise ValueError(Errors.EL313.format(path=place, part=part, names=describe(modules)))
    return found[0]


def _refuse(problems: List[str], place: str, source: str) -> None:
    if problems:
        settings = {"options": source, "n_problems": len(problems), "problems": listed(problems)}
        raise ValueError(Errors.EL026.format(path=place, **settings))


def _read_mixes(
    module: Module, block: Optional[Block], tensors: Mapping[str, Array], n_layers: int
) -> Tuple[List[LoadedMix], List[str]]:
    """The scalar mixes, in order, and all problems with their tensors."""
    norm = "allennlp" if block is not None and block.settings.get("do_layer_norm") is True else None
    mixes: List[LoadedMix] = []
    problems: List[str] = []
    while f"{(base := f'{module.mixes}scalar_mix_{len(mixes)}.')}gamma" in tensors and not problems:
        names = [base + "gamma", *(f"{base}scalar_parameters.{k}" for k in range(n_layers))]
        own = {key: array for key, array in tensors.items() if key.startswith(base)}
        problems = find_misfits(dict.fromkeys(names, (1,)), own)
        if not problems:
            gamma, *weights = (float(np.float32(own[name][0])) for name in names)
            mixes.append(LoadedMix(tuple(weights), gamma, norm))
    return mixes, problems


def _refuse_extras_of_lm(place: str, *, part: Optional[str], **extras: Optional[Source]) -> None:
    """A language model is one biLM, and its options, words and softmax are its own."""
    if part is not None:
        raise ValueError(Errors.EL313.format(path=place, part=part, names="one biLM without a name"))
    given = ", ".join(name for name, source in extras.items() if source is not None)
    if given:
        raise ValueError(Errors.EL319.format(path=place, given=given, format="allennlp (a language model)"))


def _check_cached_words(module: Module, block: Optional[Block], tensors: Mapping[str, Array], place: str) -> None:
    """Vectors that AllenNLP computed from the characters once (vocab_to_cache) are computed again: they are equal,
    unless they were trained."""
    name = f"{module.prefix}{CACHE}weight"
    if name not in tensors:
        return
    is_trained = None if block is None else block.settings.get("requires_grad", False)
    if is_trained is not False:
        n_words = len(tensors[name]) if tensors[name].shape else 0
        warnings.warn(Warnings.WL312.format(path=place, n_words=n_words), stacklevel=2)


def _read_original(files: AllenNLPFiles, block: Optional[Block]) -> Dict[str, Array]:
    """Arrays of the HDF5 file of the biLM, if the archive has it."""
    name = find_member(files, block, "weight_file")
    return {} if name is None else read_hdf5(files.sources[name])


def _build_network(config: BiLMConfig, own: Mapping[str, Array], original: Mapping[str, Array]) -> BiLMNetwork:
    state = import_arrays(allennlp_datasets(config), own, state_shapes(config))
    restore_forget_biases(config, state, own, original)
    return build_network(config, state)


def _read_head(
    files: AllenNLPFiles,
    config: BiLMConfig,
    network: BiLMNetwork,
    original: Mapping[str, Array],
    softmax: Optional[Source],
    vocab: Optional[Source],
) -> Tuple[Optional[SoftmaxHead], Optional[Vocabulary]]:
    """The softmax and its words: from the files of the user, else from the HDF5 file and vocab.txt of the archive."""
    arrays = original if softmax is None else read_hdf5(softmax)
    head = None
    if SOFTMAX_WEIGHT in arrays or SOFTMAX_BIAS in arrays or softmax is not None:
        own = {name: arrays[name] for name in (SOFTMAX_WEIGHT, SOFTMAX_BIAS) if name in arrays}
        n_words = len(own[SOFTMAX_BIAS]) if SOFTMAX_BIAS in own and own[SOFTMAX_BIAS].shape else 0
        wanted = {SOFTMAX_WEIGHT: (n_words, config.projection_width), SOFTMAX_BIAS: (n_words,)}
        where = str(softmax or files.place("its HDF5 file"))
        _refuse(find_misfits(wanted, own), where, files.place(files.weights))
        weight = nn.Parameter(from_numpy(as_float32(own[SOFTMAX_WEIGHT])))
        head = build_head(weight, as_float32(own[SOFTMAX_BIAS]))
    found = vocab or files.sources.get(VOCAB_NAME)
    words = None if found is None else read_vocabulary(found, vocab is not None or head is not None)
    check_vocabulary(words, table_rows(softmax_bias=None if head is None else head.bias.detach().numpy()))
    return head, words


def _words_of(files: AllenNLPFiles) -> Optional[List[str]]:
    """The words of AllenNLP's vocabulary, without padding, for a language model."""
    source = files.sources.get("vocabulary/tokens.txt")
    if source is None:
        return None
    try:
        lines = source.read_text().split("\n")
    except ValueError as error:
        raise ValueError(Errors.EL027.format(path=source, reason=error)) from error
    return lines[:-1] if not lines[-1] else lines
