"""ELMo in models of AllenNLP: archives `model.tar.gz`, folders of its trainings, and state dicts of its modules.

An archive has `config.json`, `weights.th` (a state dict, written by `torch.save`), a vocabulary, and maybe the
`options.json` and the HDF5 file of the biLM, which the config names. Read are the biLM of any `Elmo` or
`ElmoTokenEmbedder`, and its trained scalar mixes.
"""

import re
import warnings
from typing import Dict, Iterable, List, Mapping, Optional, Tuple

import numpy as np

from ..bilm.network import BiLMNetwork, SoftmaxHead
from ..errors import Errors, Warnings
from ..inference.bilm import BiLM
from ..settings import AnyNorm
from ..text.words import Vocabulary
from ..util import shorten
from .allennlp_lm import is_language_model, read_language_model
from .allennlp_names import CACHE, CHARACTERS, EMBEDDER, LSTM, allennlp_datasets
from .allennlp_options import NO_ELMO, ElmoBlock, Module, find_block, find_member, read_bilm_config, read_jsonnet
from .archive import (
    CONFIG_NAME,
    VOCAB_NAME,
    Array,
    File,
    Listing,
    ModelFiles,
    cannot_add,
    no_such_bilm,
    read_hdf5,
)
from .bilm_tf import SOFTMAX_NAMES
from .meta import FORMAT_KEY, LoadedMix, mixes_to_meta
from .native import has_network
from .state_dict import read_state_dict
from .tensor_map import (
    check_vocabulary,
    find_mismatches,
    load_network,
    load_softmax,
    no_vocabulary,
    raise_mismatches,
    read_vocabulary,
    softmax_shapes,
    table_rows,
)

ARCHIVE_NAME = "model.tar.gz"
ALLENNLP_WEIGHTS = ("weights.th", "best.th")  # in an archive; in the folder of a training
# Of the epochs of a training: model_state_epoch_3.th; in AllenNLP 2 model_state_e3_b0.th.
EPOCH_PATTERN = re.compile(r"model_state_e.*\.th")
TRAINING_STATE = "training_state_"  # the optimizer
STATE_SUFFIXES = (".th", ".pt", ".pth")
ELMO_MODULE = "_elmo_lstm."  # the biLM in an `Elmo`, and the LSTMs in the biLM


def detect_allennlp(listing: Listing) -> Optional[ModelFiles]:
    """Find an archive, a folder, or a state dict, beside which its config may be. ValueError for a damaged or refused
    tar archive.
    """
    file = listing.file
    if file is not None:
        is_named = file.name.endswith(STATE_SUFFIXES) and not listing.kind
        if not is_named and listing.kind != "pickle" and not _is_state_dict(file):
            return None
        return ModelFiles(str(listing.where), file, {**listing.deep_files, file.name: file})
    if listing.kind == "zip":
        return None
    for files in listing.find_model_folders(
        lambda name: name in ALLENNLP_WEIGHTS or bool(EPOCH_PATTERN.fullmatch(name))
    ).values():
        files = listing.deep_files if listing.kind == "folder" else files
        epochs = [name for name in files if EPOCH_PATTERN.fullmatch(name)]  # the newest epoch, and batch in it
        epochs.sort(key=lambda name: [int(digits) for digits in re.findall(r"\d{1,18}", name)], reverse=True)
        best = next(name for name in (*ALLENNLP_WEIGHTS, *epochs) if name in files)
        if best in ALLENNLP_WEIGHTS or ARCHIVE_NAME not in listing.files:
            return ModelFiles(str(listing.where), files[best], files)
    is_packed = listing.kind == "folder" and ARCHIVE_NAME in listing.files
    return detect_allennlp(Listing(listing.path / ARCHIVE_NAME)) if is_packed else None


def detect_state_dict(listing: Listing) -> Optional[ModelFiles]:
    """The files of a folder in no other format, if there is a state dict of any name among them. ValueError EL021 for
    several.
    """
    names = [name for name in listing.files if not name.startswith(TRAINING_STATE)]
    states = [name for name in names if _is_state_dict(listing.files[name])]
    if not states:  # the reader reports how to convert it
        states = [name for name in names if listing.files[name].kind() == "pickle"][:1]
    if len(states) > 1:
        listing_of = ", ".join(states)
        raise ValueError(Errors.EL021.format(path=listing.path, n=len(states), kind="state dicts", names=listing_of))
    return ModelFiles(str(listing.path), listing.files[states[0]], listing.deep_files) if states else None


def _is_state_dict(file: File) -> bool:
    kind = file.kind()
    return kind == "torch" or (kind == "safetensors" and not has_network(file))


def _find_modules(names: Iterable[str]) -> List[Module]:
    """All biLMs in a state dict with these names, found by their character embeddings."""
    modules = []
    for prefix in sorted(name.removesuffix(CHARACTERS) for name in names if f".{name}".endswith(f".{CHARACTERS}")):
        elmo = prefix.removesuffix(ELMO_MODULE) if f".{prefix}".endswith(f".{ELMO_MODULE}") else prefix
        modules.append(Module(elmo.rstrip("."), prefix, elmo))
    return modules


def _bilm_tensors(module: Module, names: Iterable[str]) -> Dict[str, str]:
    """Names of a biLM's tensors by their names in the biLM, without cached words."""
    inner = (name for name in names if name.startswith((module.prefix + EMBEDDER, module.prefix + LSTM)))
    return {name[len(module.prefix) :]: name for name in inner}


def read_allennlp(
    files: ModelFiles,
    *,
    name: Optional[str] = None,
    options: Optional[File] = None,
    vocab: Optional[File] = None,
    softmax: Optional[File] = None,
) -> BiLM:
    """Read an AllenNLP model, float32, with its mixes in its meta data.

    name (Optional[str]): Of the `Elmo` module in the model, needed if there are several.
    options (Optional[File]): options.json of the biLM, if the archive does not have it.
    vocab (Optional[File]), softmax (Optional[File]): Vocabulary of the softmax, and the HDF5 file with it.
    RAISES (ValueError): With all problems of all files.
    """
    where = str(files.weights)
    tensors = read_state_dict(files.weights)
    config = read_jsonnet(files.by_name[CONFIG_NAME]) if CONFIG_NAME in files.by_name else {}
    modules = _find_modules(tensors)
    if not modules and is_language_model(tensors):
        if name is not None:
            raise no_such_bilm(where, name)
        extras = {"options": options, "vocab": vocab, "softmax": softmax}
        if added := ", ".join(name for name, source in extras.items() if source is not None):  # the archive has them
            raise cannot_add(where, "allennlp (a language model)", added)
        return read_language_model(config, tensors, _words_of(files), where)
    module = _choose_module(modules, name, where)
    block = find_block(config, module)
    arrays = {inner: tensors[key] for inner, key in _bilm_tensors(module, tensors).items()}
    shapes = {inner: array.shape for inner, array in arrays.items()}
    bilm_config, source = read_bilm_config(files, config, module, block, shapes, options)
    mixes, mix_problems = _read_mixes(module, block, tensors, bilm_config.n_layers + 1)
    table = allennlp_datasets(bilm_config)
    problems = find_mismatches({dataset.name: dataset.shape for dataset in table}, arrays)
    raise_mismatches([*problems, *mix_problems], where, source)
    _check_cached_words(module, block, tensors, where)
    member = find_member(files, block, "weight_file")  # the HDF5 file of the biLM, if the archive has it
    original = {} if member is None else read_hdf5(files.by_name[member])
    network = load_network(bilm_config, table, arrays)
    head, vocabulary = _read_head(files, network, original, softmax, vocab)
    meta = {FORMAT_KEY: "allennlp", **mixes_to_meta(mixes)}
    return BiLM(network, vocabulary=vocabulary, head=head, meta=meta)


def _choose_module(modules: List[Module], name: Optional[str], where: str) -> Module:
    if not modules:
        problem = "no tensor is named '..._token_embedder._char_embedding_weights', nor is it a language model"
        raise ValueError(NO_ELMO.format(path=where, problem=problem))
    names = shorten(", ".join(f"'{module.name}'" for module in modules), 1000)
    chosen = [module for module in modules if name is None or module.name == name]
    if not chosen:
        raise no_such_bilm(where, name or "", names)
    if len(chosen) > 1:
        raise ValueError(
            f"'{where}' has {len(modules)} biLMs: {names}. Choose one of them by a '#' and its name after the "
            f"path of the archive: 'model.tar.gz#{modules[0].name}'."
        )
    return chosen[0]


def _read_mixes(
    module: Module, block: Optional[ElmoBlock], tensors: Mapping[str, Array], mixture_size: int
) -> Tuple[List[LoadedMix], List[str]]:
    """The scalar mixes, in order, and all problems with their tensors."""
    norm: Optional[AnyNorm] = "allennlp" if block is not None and block.settings.get("do_layer_norm") is True else None
    mixes: List[LoadedMix] = []
    problems: List[str] = []
    while f"{(base := f'{module.mixes}scalar_mix_{len(mixes)}.')}gamma" in tensors and not problems:
        names = [base + "gamma", *(f"{base}scalar_parameters.{k}" for k in range(mixture_size))]
        arrays = {key: array for key, array in tensors.items() if key.startswith(base)}
        problems = find_mismatches(dict.fromkeys(names, (1,)), arrays)
        if not problems:
            gamma, *weights = (float(np.float32(arrays[name][0])) for name in names)
            mixes.append(LoadedMix(tuple(weights), gamma, norm))
    return mixes, problems


def _check_cached_words(module: Module, block: Optional[ElmoBlock], tensors: Mapping[str, Array], where: str) -> None:
    """Vectors that AllenNLP computed from the characters once (vocab_to_cache) are computed again: they are equal,
    unless they were trained.
    """
    name = f"{module.prefix}{CACHE}weight"
    if name not in tensors:
        return
    is_trained = None if block is None else block.settings.get("requires_grad", False)
    if is_trained is not False:
        n_words = len(tensors[name]) if tensors[name].shape else 0
        warnings.warn(Warnings.WL312.format(path=where, n_words=n_words), stacklevel=2)


def _read_head(
    files: ModelFiles,
    network: BiLMNetwork,
    original: Mapping[str, Array],
    softmax: Optional[File],
    vocab: Optional[File],
) -> Tuple[Optional[SoftmaxHead], Optional[Vocabulary]]:
    """The softmax and its words: from the files of the user, else from the HDF5 file and vocab.txt of the archive."""
    arrays = original if softmax is None else read_hdf5(softmax)
    stored = {name: arrays[name] for name in SOFTMAX_NAMES if name in arrays}
    expected = softmax_shapes(SOFTMAX_NAMES, stored, network.config, is_shared=False, is_needed=softmax is not None)
    where = softmax or f"{files.where}: its HDF5 file"
    raise_mismatches(find_mismatches(expected, stored), where, files.weights)
    head = load_softmax(SOFTMAX_NAMES, stored, network, is_shared=False)
    words_file = vocab or files.by_name.get(VOCAB_NAME)
    words = None if words_file is None else read_vocabulary(words_file, vocab is not None or head is not None)
    check_vocabulary(words, table_rows(softmax_bias=None if head is None else head.bias.detach().numpy()), words_file)
    return head, words


def _words_of(files: ModelFiles) -> Optional[List[str]]:
    """The words of AllenNLP's vocabulary, without padding, for a language model."""
    source = files.by_name.get("vocabulary/tokens.txt")
    if source is None:
        return None
    try:
        lines = source.read_text().split("\n")
    except ValueError as error:
        raise no_vocabulary(source, error) from error
    return lines[:-1] if not lines[-1] else lines
