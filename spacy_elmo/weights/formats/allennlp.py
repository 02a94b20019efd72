"""ELMo in models of AllenNLP: archives `model.tar.gz`, folders of its trainings, and state dicts of its modules.

An archive has `config.json`, `weights.th` (a state dict, written by `torch.save`), a vocabulary, and maybe the
`options.json` and the HDF5 file of the biLM, which the config names. Read are the biLM of any `Elmo` or
`ElmoTokenEmbedder`, and its trained scalar mixes.

Neither the shapes nor the config contain the clips and the activation: the config has the path of an options file, a
copy of which may be in the archive (up to AllenNLP 0.9 in the folder `fta`, later where `include_in_archive` put it).
"""

import re
import warnings
from pathlib import PurePosixPath
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np

from ...bilm.config import BiLMConfig
from ...bilm.network import BiLMNetwork, SoftmaxHead
from ...errors import Errors, Warnings
from ...inference.bilm import BiLM
from ...settings import AnyNorm
from ...text.words import Vocabulary
from ...util import DIRECTIONS, shorten
from ..archive import (
    CONFIG_NAME,
    OPTIONS_NAME,
    VOCAB_NAME,
    Array,
    File,
    Listing,
    ModelFiles,
    Shape,
    cannot_add,
    no_such_bilm,
    read_hdf5,
    read_object,
)
from ..meta import FORMAT_KEY, LoadedMix, mixes_to_meta
from ..tensor_map import (
    check_vocabulary,
    find_mismatches,
    load_network,
    load_softmax,
    raise_mismatches,
    read_vocabulary,
    softmax_shapes,
    table_rows,
)
from .allennlp_lm import is_language_model, read_language_model
from .allennlp_names import CACHE, CHARACTERS, EMBEDDER, LSTM, allennlp_datasets
from .bilm_tf import SOFTMAX_NAMES, derive_options, read_options
from .native import has_network
from .state_dict import read_state_dict

ARCHIVE_NAME = "model.tar.gz"
ALLENNLP_WEIGHTS = ("weights.th", "best.th")  # in an archive; in the folder of a training
# Of the epochs of a training: model_state_epoch_3.th; in AllenNLP 2 model_state_e3_b0.th.
EPOCH_PATTERN = re.compile(r"model_state_e.*\.th")
TRAINING_STATE = "training_state_"  # the optimizer
STATE_SUFFIXES = (".th", ".pt", ".pth")
ELMO_MODULE = "_elmo_lstm."  # the biLM in an `Elmo`, and the LSTMs in the biLM
NO_ELMO = (
    "'{path}' has no ELMo of AllenNLP: {problem}. Pass an archive or a state dict of a model with an `Elmo` or an "
    "`ElmoTokenEmbedder`."
)
ELMO_EMBEDDER = "elmo_token_embedder"
# AllenNLP's own models. The first is the default of `ElmoTokenEmbedder`.
OFFICIAL = tuple(
    f"elmo_{size}_options.json"
    for size in (
        *("2x4096_512_2048cnn_2xhighway", "2x1024_128_2048cnn_1xhighway", "2x2048_256_2048cnn_1xhighway"),
        "2x4096_512_2048cnn_2xhighway_5.5B",
    )
)
# An escape, a quotation mark, or a comma that only white space separates from a closing bracket. A pattern of whole
# strings would take quadratic time where a string has no end.
TOKEN = re.compile(rb'\\.|"|,(?=\s*[\]}])', re.DOTALL)


class Module(NamedTuple):
    """A biLM in a state dict.

    name (str): Name of the `Elmo` module, or of the biLM if it is not in one; "" for the whole state dict.
    prefix (str): Prefix of the biLM's tensors.
    mixes (str): Prefix of its scalar mixes.
    """

    name: str
    prefix: str
    mixes: str


class ElmoBlock(NamedTuple):
    """Settings of an `Elmo` or `ElmoTokenEmbedder` in a config.

    path (str): Its place, keys joined by dots.
    settings (Mapping[str, Any]): The settings.
    """

    path: str
    settings: Mapping[str, Any]


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
        states = [name for name in names if listing.files[name].kind == "pickle"][:1]
    if len(states) > 1:
        listing_of = ", ".join(states)
        raise ValueError(Errors.EL021.format(path=listing.path, n=len(states), kind="state dicts", names=listing_of))
    return ModelFiles(str(listing.path), listing.files[states[0]], listing.deep_files) if states else None


def _is_state_dict(file: File) -> bool:
    kind = file.kind
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
    config = read_jsonnet(files.by_name[CONFIG_NAME], "a config") if CONFIG_NAME in files.by_name else {}
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
    if len(chosen) != 1:
        problem = "none is chosen" if name is None else f"none has the name '{name}'"
        raise ValueError(
            f"'{where}' has {len(modules)} biLM(s): {names}; {problem}. Choose one of them by a '#' and its name after "
            f"the path of the archive: 'model.tar.gz#{modules[0].name}'."
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
    lines = source.read_text().split("\n")
    return lines[:-1] if not lines[-1] else lines


def find_block(config: Mapping[str, Any], module: Module) -> Optional[ElmoBlock]:
    """The settings of a biLM in the config of an archive: the only ones, or those named as its token embedder."""
    blocks = list(_walk_config(config, ()))
    named = [block for block in blocks if f"token_embedder_{block.path.rpartition('.')[2]}" in module.name.split(".")]
    candidates = named if len(named) == 1 else blocks
    return candidates[0] if len(candidates) == 1 else None


def read_bilm_config(
    files: ModelFiles,
    config: Mapping[str, Any],
    module: Module,
    block: Optional[ElmoBlock],
    shapes: Mapping[str, Shape],
    user_options: Optional[File],
) -> Tuple[BiLMConfig, str]:
    """The config of a biLM, and the source of the options.

    config (Mapping[str, Any]): The config of the archive.
    block (Optional[ElmoBlock]): The settings of the biLM in it.
    shapes (Mapping[str, Shape]): Shapes of its tensors by their names in it.
    user_options (Optional[File]): Options that the user specifies, which are used first.
    RAISES (ValueError): With all problems.
    """
    options, source = _find_options(files, config, block, user_options)
    where = str(files.weights)
    if options is None:
        options, source = _derive_options(shapes, where), f"shapes of {where}"
        if not _is_official(block):
            warnings.warn(Warnings.WL310.format(path=where, name=module.name or "the biLM"), stacklevel=2)
    bilm_config = read_options(options, source, has_projection=True)
    checks = [
        (
            bilm_config.has_projection,
            f"its LSTMs project to their own width, {bilm_config.cell_width}, which a biLM here does not have",
        ),
        (
            bilm_config.has_skip or bilm_config.n_layers == 1,
            "lstm.use_skip_connections is false, but AllenNLP's ELMo always has skip connections",
        ),
    ]
    if problems := [text for is_fine, text in checks if not is_fine]:
        raise ValueError(Errors.EL023.format(path=source, problems="; ".join(problems)))
    return bilm_config, source


def _find_options(
    files: ModelFiles, config: Mapping[str, Any], block: Optional[ElmoBlock], user_options: Optional[File]
) -> Tuple[Optional[Mapping[str, Any]], str]:
    if user_options is not None:
        return read_object(user_options, "options"), str(user_options)
    stated = None if block is None else block.settings.get("options_file")
    if block is not None and isinstance(stated, Mapping):
        return stated, f"{files.by_name[CONFIG_NAME]}, {block.path}.options_file"
    name = find_member(files, block, "options_file")
    if name is None and not _is_official(block) and OPTIONS_NAME in files.by_name:
        name = OPTIONS_NAME
    if name is not None:
        return read_jsonnet(files.by_name[name], "options"), str(files.by_name[name])
    if "lstm" in config:  # options under the name of a config
        return config, str(files.by_name[CONFIG_NAME])
    return None, ""


def find_member(files: ModelFiles, block: Optional[ElmoBlock], key: str) -> Optional[str]:
    """The name in the archive or folder of the copy of a file whose path is a setting, "options_file" or "weight_file";
    files elsewhere are not opened.
    """
    if block is None:
        return None
    stated = block.settings.get(key)
    names = [f"fta/{block.path}.{key}"]
    if isinstance(stated, str):
        inner = stated.replace("\\", "/").rpartition("!")[2]
        names += [inner.removeprefix("./"), PurePosixPath(inner).name]
    return next((name for name in names if name in files.by_name), None)


def _is_official(block: Optional[ElmoBlock]) -> bool:
    if block is None:
        return False
    stated = block.settings.get("options_file")
    if stated is None:
        return block.settings.get("type") == ELMO_EMBEDDER
    return isinstance(stated, str) and PurePosixPath(stated).name in OFFICIAL


def _walk_config(node: Any, path: Tuple[str, ...]) -> Iterator[ElmoBlock]:
    """All blocks of a config that make an ELMo."""
    if isinstance(node, Mapping):
        if "options_file" in node or node.get("type") == ELMO_EMBEDDER:
            yield ElmoBlock(".".join(path), node)
            return
        for key, inner in node.items():
            yield from _walk_config(inner, (*path, str(key)))
    elif isinstance(node, list):
        for index, inner in enumerate(node):
            yield from _walk_config(inner, (*path, str(index)))


def _derive_options(shapes: Mapping[str, Shape], where: str) -> Dict[str, Any]:
    """Options for the shapes of a biLM's tensors by their names in it, in the form of bilm-tf's options.json."""
    cell = f"{LSTM}{DIRECTIONS[0]}_layer_"
    names = {
        "characters": CHARACTERS,
        "filters": EMBEDDER + "char_conv_{}.weight",
        "highways": EMBEDDER + "_highways._layers.{}.weight",
        "gates": cell + "{}.input_linearity.weight",
        "projections": cell + "{}.state_projection.weight",
    }
    outputs_last = {name: shape if name == CHARACTERS else shape[::-1] for name, shape in shapes.items()}
    return derive_options(outputs_last, names, 3, where)


def to_json(content: bytes) -> bytes:
    """JSON without trailing commas; other Jsonnet is unchanged."""
    plain = bytearray()
    start, is_string = 0, False
    for token in TOKEN.finditer(content):
        if token[0] == b'"':
            is_string = not is_string
        elif token[0] == b"," and not is_string:
            plain += content[start : token.start()]
            start = token.end()
    return bytes(plain + content[start:])


def read_jsonnet(source: File, kind: str) -> Dict[str, Any]:
    """The object of a JSON file, in which AllenNLP allows some Jsonnet. ValueError EL022."""
    return read_object(source, kind, to_json)
