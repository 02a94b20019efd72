"""ELMo in models of AllenNLP: archives `model.tar.gz`, folders of its trainings, and state dicts of its modules.

An archive has `config.json`, `weights.th` (a state dict, written by `torch.save`), a vocabulary, and maybe the
`options.json` and the HDF5 file of the biLM, which the config names. Read are the biLM of any `Elmo` or
`ElmoTokenEmbedder`, and its trained scalar mixes.
"""

import re
import warnings
from pathlib import PurePosixPath
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np
import torch

from ..bilm.config import BiLMConfig
from ..bilm.lm_head import SoftmaxHead
from ..bilm.model import BiLMNetwork
from ..errors import Errors, Warnings
from ..inference.bilm import BiLM
from ..text.words import Vocabulary
from ..util import shorten
from .allennlp_lm import is_language_model, read_language_model
from .allennlp_names import CACHE, CHARACTERS, EMBEDDER, FORGET, GATES, LSTM, allennlp_datasets
from .bilm_tf import (
    SOFTMAX_NAMES,
    cell_of,
    derive_options,
    find_foreign_parts,
    read_options,
)
from .files import (
    CONFIG_NAME,
    MAX_JSON_BYTES,
    OPTIONS_NAME,
    VOCAB_NAME,
    Array,
    File,
    Listing,
    ModelFiles,
    Shape,
    cannot_add,
    no_such_bilm,
    parse_json,
    read_hdf5,
    read_json,
)
from .meta import FORMAT_KEY, LoadedMix, mixes_to_meta
from .native import has_network
from .tensor_map import (
    DIRECTIONS,
    WITHOUT_FORGET_BIAS,
    as_float32,
    check_vocabulary,
    find_misfits,
    load_network,
    load_softmax,
    no_vocabulary,
    read_vocabulary,
    refuse_misfits,
    softmax_shapes,
    table_rows,
)
from .torch_files import read_state_dict

ARCHIVE_NAME = "model.tar.gz"
ALLENNLP_WEIGHTS = ("weights.th", "best.th")  # in an archive; in the folder of a training
# Of the epochs of a training: model_state_epoch_3.th; in AllenNLP 2 model_state_e3_b0.th.
EPOCH_PATTERN = re.compile(r"model_state_e.*\.th")
TRAINING_STATE = "training_state_"  # the optimizer
STATE_SUFFIXES = (".th", ".pt", ".pth")
NO_ELMO = (
    "'{path}' has no ELMo of AllenNLP: {problem}. Pass an archive or a state dict of a model with an `Elmo` or an "
    "`ElmoTokenEmbedder`."
)


def detect_allennlp(listing: Listing) -> Optional[ModelFiles]:
    """Find an archive, a folder, or a state dict, beside which its config may be.

    RAISES (ValueError): For a tar archive that is damaged or refused.
    """
    file = listing.file
    if file is not None:
        is_named = file.name.endswith(STATE_SUFFIXES) and not listing.kind
        if not is_named and listing.kind != "pickle" and not _is_state_dict(file):
            return None
        return ModelFiles(str(listing.where), file, {**listing.deep_files, file.name: file})
    if listing.kind == "zip":
        return None
    for files in listing.roots(lambda name: name in ALLENNLP_WEIGHTS or bool(EPOCH_PATTERN.fullmatch(name))).values():
        files = listing.deep_files if listing.kind == "folder" else files
        epochs = [name for name in files if EPOCH_PATTERN.fullmatch(name)]  # the newest epoch, and batch in it
        epochs.sort(key=lambda name: [int(digits) for digits in re.findall(r"\d{1,18}", name)], reverse=True)
        best = next(name for name in (*ALLENNLP_WEIGHTS, *epochs) if name in files)
        if best in ALLENNLP_WEIGHTS or ARCHIVE_NAME not in listing.files:
            return ModelFiles(str(listing.where), files[best], files)
    is_packed = listing.kind == "folder" and ARCHIVE_NAME in listing.files
    return detect_allennlp(Listing(listing.path / ARCHIVE_NAME)) if is_packed else None


def detect_state_dict(listing: Listing) -> Optional[ModelFiles]:
    """listing (Listing): A folder in no other format.
    RETURNS (Optional[ModelFiles]): Its files, if there is a state dict of any name among them.
    RAISES (ValueError): EL021 if there are several.
    """
    names = [name for name in listing.files if not name.startswith(TRAINING_STATE)]
    states = [name for name in names if _is_state_dict(listing.files[name])]
    if not states:  # the reader says how to convert it
        states = [name for name in names if listing.files[name].kind() == "pickle"][:1]
    if len(states) > 1:
        listing_of = ", ".join(states)
        raise ValueError(Errors.EL021.format(path=listing.path, n=len(states), kind="state dicts", names=listing_of))
    return ModelFiles(str(listing.path), listing.files[states[0]], listing.deep_files) if states else None


def _is_state_dict(file: File) -> bool:
    kind = file.kind()
    return kind == "torch" or (kind == "safetensors" and not has_network(file))


# An escape, a quotation mark, or a comma that only white space separates from a closing bracket. A pattern of whole
# strings would take quadratic time where a string has no end.
TOKEN = re.compile(rb'\\.|"|,(?=\s*[\]}])', re.DOTALL)


def to_json(content: bytes) -> bytes:
    """content (bytes): JSON, maybe with trailing commas.
    RETURNS (bytes): JSON; other Jsonnet is unchanged.
    """
    plain = bytearray()
    start, is_string = 0, False
    for token in TOKEN.finditer(content):
        if token[0] == b'"':
            is_string = not is_string
        elif token[0] == b"," and not is_string:
            plain += content[start : token.start()]
            start = token.end()
    return bytes(plain + content[start:])


def read_jsonnet(source: File) -> Any:
    """RETURNS (Any): The value of a JSON file, in which AllenNLP allows some Jsonnet.
    RAISES (ValueError): EL022 or EL036.
    """
    return parse_json(to_json(source.read_bytes(MAX_JSON_BYTES)), source)


ELMO_MODULE = "_elmo_lstm."  # the biLM in an `Elmo`, and the LSTMs in the biLM


class Module(NamedTuple):
    """A biLM in a state dict.

    name (str): Name of the `Elmo` module, or of the biLM if it is not in one; "" for the whole state dict.
    prefix (str): Prefix of the biLM's tensors.
    mixes (str): Prefix of its scalar mixes.
    """

    name: str
    prefix: str
    mixes: str


def find_modules(names: Iterable[str]) -> List[Module]:
    """names (Iterable[str]): Names in a state dict.
    RETURNS (List[Module]): All biLMs, found by their character embeddings.
    """
    modules = []
    for prefix in sorted(name.removesuffix(CHARACTERS) for name in names if f".{name}".endswith(f".{CHARACTERS}")):
        elmo = prefix.removesuffix(ELMO_MODULE) if f".{prefix}".endswith(f".{ELMO_MODULE}") else prefix
        modules.append(Module(elmo.rstrip("."), prefix, elmo))
    return modules


def bilm_tensors(module: Module, names: Iterable[str]) -> Dict[str, str]:
    """RETURNS (Dict[str, str]): Names of a biLM's tensors by their names in the biLM, without cached words."""
    inner = (name for name in names if name.startswith((module.prefix + EMBEDDER, module.prefix + LSTM)))
    return {name[len(module.prefix) :]: name for name in inner}


def _derive_options(shapes: Mapping[str, Shape], where: str) -> Dict[str, Any]:
    """shapes (Mapping[str, Shape]): Of a biLM's tensors, by their names in it.
    where (str): File of the tensors, for messages.
    RETURNS (Dict[str, Any]): Options for these shapes, in the form of bilm-tf's options.json.
    RAISES (ValueError): If a tensor that tells a size is missing or has another number of dimensions.
    """
    cell = f"{LSTM}{DIRECTIONS[0]}_layer_"
    names = {
        "characters": CHARACTERS,
        "filters": EMBEDDER + "char_conv_{}.weight",
        "highways": EMBEDDER + "_highways._layers.{}.weight",
        "gates": cell + "{}.input_linearity.weight",
        "projections": cell + "{}.state_projection.weight",
    }
    outputs_last = {name: shape if name == CHARACTERS else shape[::-1] for name, shape in shapes.items()}
    options, problems = derive_options(outputs_last, names, 3)
    if problems:
        raise ValueError(NO_ELMO.format(path=where, problem=shorten("; ".join(problems))))
    return options


# Options of the biLM in an AllenNLP archive: from the files that its config names, else from the shapes of tensors.
#
# Shapes do not tell the clips and the activation. The config does not either: it has the path of an options file, a
# copy of which may be in the archive (up to AllenNLP 0.9 in the folder `fta`, later where `include_in_archive` put it).

ELMO_EMBEDDER = "elmo_token_embedder"
# AllenNLP's own models. The first is the default of `ElmoTokenEmbedder`.
OFFICIAL = tuple(
    f"elmo_{size}_options.json"
    for size in (
        *("2x4096_512_2048cnn_2xhighway", "2x1024_128_2048cnn_1xhighway", "2x2048_256_2048cnn_1xhighway"),
        "2x4096_512_2048cnn_2xhighway_5.5B",
    )
)


class Block(NamedTuple):
    """Settings of an `Elmo` or `ElmoTokenEmbedder` in a config.

    path (str): Its place, keys joined by dots.
    settings (Mapping[str, Any]): The settings.
    """

    path: str
    settings: Mapping[str, Any]


def find_block(config: Any, module: Module) -> Optional[Block]:
    """config (Any): The config of the archive.
    module (Module): The biLM.
    RETURNS (Optional[Block]): Its settings: the only ones, or those with the name of its token embedder.
    """
    blocks = list(_walk(config, ()))
    named = [block for block in blocks if f"token_embedder_{block.path.rpartition('.')[2]}" in module.name.split(".")]
    candidates = named if len(named) == 1 else blocks
    return candidates[0] if len(candidates) == 1 else None


def read_bilm_config(
    files: ModelFiles,
    config: Any,
    module: Module,
    block: Optional[Block],
    shapes: Mapping[str, Shape],
    given: Optional[File],
) -> Tuple[BiLMConfig, str]:
    """The config of a biLM.

    files (ModelFiles): The archive.
    config (Any): Its config.
    module (Module): The biLM.
    block (Optional[Block]): Its settings in the config of the archive.
    shapes (Mapping[str, Shape]): Shapes of its tensors by their names in it.
    given (Optional[File]): Options that the user specifies, which are used first.
    RETURNS (Tuple[BiLMConfig, str]): The config, and the source of the options.
    RAISES (ValueError): With all problems.
    """
    options, source = _find_options(files, config, block, given)
    where = str(files.weights)
    if options is None:
        options, source = _derive_options(shapes, where), f"shapes of {where}"
        if not _is_official(block):
            warnings.warn(Warnings.WL310.format(path=where, name=module.name or "the biLM"), stacklevel=2)
    bilm_config = read_options(options, source, has_projection=True)
    if not bilm_config.has_projection:
        problem = f"its LSTMs project to their own width, {bilm_config.cell_width}, which a biLM here does not have"
        raise ValueError(NO_ELMO.format(path=where, problem=problem))
    if not bilm_config.has_skip and bilm_config.n_layers > 1:
        problem = "lstm.use_skip_connections is false, but AllenNLP's ELMo always has skip connections"
        raise ValueError(Errors.EL023.format(path=source, problems=problem))
    return bilm_config, source


def _find_options(files: ModelFiles, config: Any, block: Optional[Block], given: Optional[File]) -> Tuple[Any, str]:
    """The options and their source, None if there are none."""
    if given is not None:
        return read_json(given), str(given)
    stated = None if block is None else block.settings.get("options_file")
    if block is not None and isinstance(stated, Mapping):
        return stated, f"{files.by_name[CONFIG_NAME]}, {block.path}.options_file"
    name = find_member(files, block, "options_file")
    if name is None and not _is_official(block) and OPTIONS_NAME in files.by_name:
        name = OPTIONS_NAME
    if name is not None:
        return read_jsonnet(files.by_name[name]), str(files.by_name[name])
    if isinstance(config, Mapping) and "lstm" in config:  # options under the name of a config
        return config, str(files.by_name[CONFIG_NAME])
    return None, ""


def find_member(files: ModelFiles, block: Optional[Block], key: str) -> Optional[str]:
    """block (Optional[Block]): Settings of the biLM.
    key (str): A setting with the path of a file, "options_file" or "weight_file".
    RETURNS (Optional[str]): Name of its copy in the archive or folder; files elsewhere are not opened.
    """
    if block is None:
        return None
    stated = block.settings.get(key)
    names = [f"fta/{block.path}.{key}"]
    if isinstance(stated, str):
        inner = stated.replace("\\", "/").rpartition("!")[2]
        names += [inner.removeprefix("./"), PurePosixPath(inner).name]
    return next((name for name in names if name in files.by_name), None)


def _is_official(block: Optional[Block]) -> bool:
    if block is None:
        return False
    stated = block.settings.get("options_file")
    if stated is None:
        return block.settings.get("type") == ELMO_EMBEDDER
    return isinstance(stated, str) and PurePosixPath(stated).name in OFFICIAL


def _walk(node: Any, path: Tuple[str, ...]) -> Iterator[Block]:
    """All blocks of a config that make an ELMo. JSON is nested at most `MAX_JSON_DEPTH` levels."""
    if isinstance(node, Mapping):
        if "options_file" in node or node.get("type") == ELMO_EMBEDDER:
            yield Block(".".join(path), node)
            return
        for key, inner in node.items():
            yield from _walk(inner, (*path, str(key)))
    elif isinstance(node, list):
        for index, inner in enumerate(node):
            yield from _walk(inner, (*path, str(index)))


# The forget biases of an archive that also has the HDF5 file of its biLM, bit for bit.
#
# A state dict has fl(b + 1). For b >= -0.5 some bits of b are lost in the sum, and b cannot be found from it. Where the
# archive has the original file, and its b gives the same sum, b is taken from there. Without that file b = fl(sum - 1),
# with which AllenNLP's own sum comes out again: the vectors are the same.


@torch.no_grad()
def _restore_forget_biases(network: BiLMNetwork, tensors: Mapping[str, Array], original: Mapping[str, Array]) -> None:
    """Replace forget biases by those of the original file.

    network (BiLMNetwork): Changed in place.
    tensors (Mapping[str, Array]): AllenNLP's tensors, by their names in the biLM.
    original (Mapping[str, Array]): Arrays of an HDF5 file by the names of bilm-tf; may lack any.
    """
    config = network.config
    h = config.cell_width
    columns = slice(GATES[FORGET] * h, (GATES[FORGET] + 1) * h)
    for layer in range(config.n_layers):
        for direction in range(config.n_directions):
            bias = original.get(f"{cell_of(direction, layer)}B")
            if bias is None or bias.shape != (4 * h,) or bias.dtype.kind != "f":
                continue
            exact = as_float32(bias[columns])
            summed = as_float32(tensors[f"{LSTM}{DIRECTIONS[direction]}_layer_{layer}.state_linearity.bias"])
            if np.array_equal(WITHOUT_FORGET_BIAS.to_theirs(exact), summed[FORGET * h : (FORGET + 1) * h]):
                network.encoder.layers[layer].bias[direction, columns] = torch.from_numpy(exact)


# AllenNLP models that contain an ELMo: the biLM and its trained scalar mixes, from a state dict and its config.


def read_allennlp(
    files: ModelFiles,
    *,
    name: Optional[str] = None,
    options: Optional[File] = None,
    vocab: Optional[File] = None,
    softmax: Optional[File] = None,
) -> BiLM:
    """Read an AllenNLP model.

    files (ModelFiles): Its files.
    name (Optional[str]): Of the `Elmo` module in the model, needed if there are several.
    options (Optional[File]): options.json of the biLM, if the archive does not have it.
    vocab (Optional[File]): Vocabulary of the softmax.
    softmax (Optional[File]): HDF5 file with the softmax.
    RETURNS (BiLM): float32, with its mixes in its meta data.
    RAISES (ValueError): With all problems of all files.
    """
    where = str(files.weights)
    tensors = read_state_dict(files.weights)
    config = read_jsonnet(files.by_name[CONFIG_NAME]) if CONFIG_NAME in files.by_name else {}
    modules = find_modules(tensors)
    if not modules and is_language_model(tensors):
        if name is not None:
            raise no_such_bilm(where, name)
        extras = {"options": options, "vocab": vocab, "softmax": softmax}
        given = ", ".join(name for name, source in extras.items() if source is not None)
        if given:  # it has its own
            raise cannot_add(where, "allennlp (a language model)", given)
        return read_language_model(config, tensors, _words_of(files), where)
    module = _choose(modules, name, where)
    block = find_block(config, module)
    arrays = {inner: tensors[key] for inner, key in bilm_tensors(module, tensors).items()}
    shapes = {inner: array.shape for inner, array in arrays.items()}
    bilm_config, source = read_bilm_config(files, config, module, block, shapes, options)
    mixes, mix_problems = _read_mixes(module, block, tensors, bilm_config.n_layers + 1)
    table = allennlp_datasets(bilm_config)
    problems = find_misfits({dataset.name: dataset.shape for dataset in table}, arrays)
    refuse_misfits([*problems, *mix_problems], where, source)
    _check_cached_words(module, block, tensors, where)
    member = find_member(files, block, "weight_file")  # the HDF5 file of the biLM, if the archive has it
    original = {} if member is None else read_hdf5(files.by_name[member])
    network = load_network(bilm_config, table, arrays)
    _restore_forget_biases(network, arrays, original)
    head, vocabulary = _read_head(files, network, original, softmax, vocab)
    meta = {FORMAT_KEY: "allennlp", **mixes_to_meta(mixes)}
    return BiLM(network, vocabulary=vocabulary, head=head, meta=meta)


def _choose(modules: List[Module], name: Optional[str], where: str) -> Module:
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
    module: Module, block: Optional[Block], tensors: Mapping[str, Array], n_layers: int
) -> Tuple[List[LoadedMix], List[str]]:
    """The scalar mixes, in order, and all problems with their tensors."""
    norm = "allennlp" if block is not None and block.settings.get("do_layer_norm") is True else None
    mixes: List[LoadedMix] = []
    problems: List[str] = []
    while f"{(base := f'{module.mixes}scalar_mix_{len(mixes)}.')}gamma" in tensors and not problems:
        names = [base + "gamma", *(f"{base}scalar_parameters.{k}" for k in range(n_layers))]
        arrays = {key: array for key, array in tensors.items() if key.startswith(base)}
        problems = find_misfits(dict.fromkeys(names, (1,)), arrays)
        if not problems:
            gamma, *weights = (float(np.float32(arrays[name][0])) for name in names)
            mixes.append(LoadedMix(tuple(weights), gamma, norm))
    return mixes, problems


def _check_cached_words(module: Module, block: Optional[Block], tensors: Mapping[str, Array], where: str) -> None:
    """Vectors that AllenNLP computed from the characters once (vocab_to_cache) are computed again: they are equal,
    unless they were trained."""
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
    refuse_misfits(find_misfits(expected, stored), where, files.weights)
    head = load_softmax(SOFTMAX_NAMES, stored, network, is_shared=False)
    words_file = vocab or files.by_name.get(VOCAB_NAME)
    words = None if words_file is None else read_vocabulary(words_file, vocab is not None or head is not None)
    check_vocabulary(words, table_rows(softmax_bias=None if head is None else head.bias.detach().numpy()))
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


def find_unknown_parts(bilm: BiLM) -> List[str]:
    """RETURNS (List[str]): What the modules of AllenNLP's ELMo do not have."""
    config, characters = bilm.config, bilm.config.char_cnn
    checks = [
        (characters is not None, "it has no character CNN of its own, should read characters"),
        (characters is None or config.has_cnn_projection, "its character CNN has no projection, should have one"),
        (config.directions == "both", "it is forward only, should have both directions"),
        (config.has_projection, "its LSTMs have no projection, should have projection_width below cell_width"),
        (bilm.token_embeddings is None, "it has token embeddings, which would be computed from characters instead"),
    ]
    return find_foreign_parts(config) + [text for is_fine, text in checks if not is_fine]
