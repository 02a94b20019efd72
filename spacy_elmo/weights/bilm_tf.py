"""The format of bilm-tf: options.json, an HDF5 file, and optionally a vocabulary and token embeddings."""

import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

import srsly
from torch import from_numpy, nn

from ..bilm.config import ACTIVATIONS, UTF8_CHARACTERS, BiLMConfig, CharCNNConfig
from ..bilm.lm_head import AdaptiveHead, SoftmaxHead
from ..bilm.model import BiLMNetwork
from ..errors import Errors
from ..inference.bilm import BiLM
from ..util import shorten
from .hdf5 import read_hdf5, write_hdf5
from .parts import (
    MAX_CHARACTERS,
    MAX_LAYERS,
    MAX_WIDTH,
    MAX_WORDS,
    SettingsReader,
    as_float32,
    build_head,
    build_network,
    check_dtype_fits,
    check_vocabulary,
    is_head_shared,
    network_shapes,
    read_filters,
    read_vocabulary,
    refuse_misfits,
    table_rows,
    to_arrays,
    write_vocabulary,
)
from .sources import Source, list_sources, read_json
from .tensor_map import (
    MAX_ABSOLUTE,
    Array,
    Dataset,
    Shape,
    TensorSlice,
    export_arrays,
    find_misfits,
    import_arrays,
    permute,
    whole,
)

# Find the files of a bilm-tf model: in a folder, in a zip, or an HDF5 file with its options in the same folder.

HDF5_SUFFIXES = (".hdf5", ".h5")
TOKEN_EMBEDDINGS_NAME = "token_embeddings.hdf5"
VOCAB_NAME = "vocab.txt"  # in zips of NLPL with .gz
BILM_TF_WANTED = (
    "a folder with options.json and one .hdf5 file; an .hdf5 file next to its options.json; a .zip with both"
)


@dataclass(frozen=True)
class TFFiles:
    """The files of a bilm-tf model.

    options (Source): options.json.
    weights (Source): The HDF5 file.
    vocab (Optional[Source]): Vocabulary, one word per line.
    token_embeddings (Optional[Source]): Precomputed word vectors, under the name that our exporter uses.
    """

    options: Source
    weights: Source
    vocab: Optional[Source] = None
    token_embeddings: Optional[Source] = None


def detect_bilm_tf(path: Path) -> Optional[TFFiles]:
    """path (Path): A folder or file that exists.
    RETURNS (Optional[TFFiles]): The files; None for a file or folder in another format, or without options or weights.
    RAISES (ValueError): EL020 for an HDF5 file without options, EL021 if there are several candidates, EL022 for a
        damaged zip.
    """
    if path.is_dir():
        return _pick(str(path), list_sources(path))
    source, kind = Source(path), Source(path).kind()
    if kind == "hdf5" or source.name.endswith(HDF5_SUFFIXES):
        return _beside_weights(source)
    if source.name.endswith("options.json"):
        return _beside_options(source)
    # By name, too, since zipfile does not recognize a truncated zip.
    return _pick(str(path), list_sources(path)) if kind == "zip" or path.suffix == ".zip" else None


def find_options(sources: Iterable[Source]) -> List[Source]:
    """RETURNS (List[Source]): The files whose names end in options.json."""
    return [source for source in sources if source.name.endswith("options.json")]


def _beside_weights(weights: Source) -> TFFiles:
    """The options with the same prefix as the weights, else options.json, else the only options in the folder."""
    stem = Path(weights.name).stem
    prefix = re.sub(r"(weights|model)$", "", stem)
    beside = list_sources(weights.path.parent)
    names = [f"{prefix}options.json", f"{stem}_options.json", f"{stem}.json", "options.json"]
    options = next((beside[name] for name in names if name in beside), None)
    if options is None:
        options = only_source(find_options(beside.values()), str(weights), "options", names)
    vocab = beside.get(f"{prefix}{VOCAB_NAME}", beside.get(VOCAB_NAME))
    return TFFiles(options, weights, vocab, beside.get(TOKEN_EMBEDDINGS_NAME))


def _beside_options(options: Source) -> Optional[TFFiles]:
    """The files in the folder of the options: those with the same prefix, if weights are among them."""
    prefix = options.name.removesuffix("options.json")
    beside = list_sources(options.path.parent)
    others = {name: source for name, source in beside.items() if not name.endswith("options.json")}
    named = {name: others[name] for name in others if name.startswith(prefix) or not name.endswith(HDF5_SUFFIXES)}
    is_named = any(name.endswith(HDF5_SUFFIXES) for name in named)
    return _pick(str(options), {options.name: options, **(named if is_named else others)})


def _pick(where: str, sources: Dict[str, Source]) -> Optional[TFFiles]:
    """Exactly one options file and one weights file among the files of a folder or zip, or None."""
    found = sources.values()
    options = find_options(found)
    others = [source for source in found if not source.name.endswith(TOKEN_EMBEDDINGS_NAME)]
    named = [source for source in others if source.name.endswith(HDF5_SUFFIXES)]
    weights = [source for source in named if source.kind() in ("hdf5", "")]  # damaged ones, too, for their error
    if options and not weights:  # another suffix
        weights = [source for source in others if source.kind() == "hdf5"]
    if not weights or not options:
        return None
    return TFFiles(
        only_source(options, where, "options", ["options.json"]),
        only_source(weights, where, "HDF5 weights", ["weights.hdf5"]),
        next((source for source in found if source.name == VOCAB_NAME), None),
        next((source for source in found if source.name == TOKEN_EMBEDDINGS_NAME), None),
    )


def only_source(
    found: Sequence[Source], where: object, kind: str, wanted: Iterable[str], beside: str = "an HDF5 file"
) -> Source:
    """found (Sequence[Source]): Files of a kind, named `wanted` as a rule.
    where (object), beside (str): The file that they belong to, and what it is.
    RETURNS (Source): The only one.
    RAISES (ValueError): EL020 if there is none, EL021 if there are several.
    """
    if not found:
        reason = f"it is {beside} without {kind} in the same folder"
        names = f"{' or '.join(wanted)}, or a file given by `options=...` (`--options`)"
        raise ValueError(Errors.EL020.format(path=where, reason=reason, wanted=names))
    if len(found) > 1:
        names = ", ".join(source.name for source in found)
        raise ValueError(Errors.EL021.format(path=where, n=len(found), kind=kind, names=names))
    return found[0]


# Convert bilm-tf's options.json to a `BiLMConfig` and back. All problems of a file are reported at once.

DEFAULT_MAX_CHARACTERS = 50
N_CHARACTERS_INFERENCE = 262
KNOWN_N_CHARACTERS = (261, 262)
MIN_CHARACTERS = 4  # as in `CharCNNConfig`


def read_options(
    options: Any,
    source: str,
    *,
    has_projection: bool = False,
    n_words: Optional[int] = None,
    forward_only: bool = False,
) -> BiLMConfig:
    """Convert options to a config.

    Three properties are taken from the weights file, since options omit them, or differ in training and inference.

    options (Any): The parsed JSON.
    source (str): Source of the options, for messages.
    has_projection (bool): Whether the weights have a character projection, even if bilm-tf would have none.
    n_words (Optional[int]): Rows of the word table in the weights, for options without `char_cnn`.
    forward_only (bool): Whether the names of the weights are those of a dump of a forward model.
    RETURNS (BiLMConfig): The config.
    RAISES (ValueError): EL023 with all problems.
    """
    if not isinstance(options, Mapping):
        problem = f"it contains a {type(options).__name__}, not a block of settings"
        raise ValueError(Errors.EL023.format(path=source, problems=problem))
    reader = SettingsReader(options)
    settings = _lstm_settings(reader)
    characters = None
    if reader.has("char_cnn"):
        characters = _char_settings(reader, settings["projection_width"] if has_projection else None)
    else:
        stated = reader.take("n_tokens_vocab", int, None, least=1, most=MAX_WORDS)
        if n_words is None and stated is None:
            reader.problems.append("there is no char_cnn block, no n_tokens_vocab and no word table in the weights")
        elif n_words is not None and stated is not None and n_words != stated:
            reader.problems.append(f"n_tokens_vocab is {stated}, but the word table of the weights has {n_words} rows")
        settings["n_words"] = stated if n_words is None else n_words
    is_bidirectional = reader.take("bidirectional", bool, True)
    settings["directions"] = "forward" if forward_only or is_bidirectional is False else "both"
    if reader.problems:
        raise ValueError(Errors.EL023.format(path=source, problems=shorten("; ".join(reader.problems))))
    return BiLMConfig(char_cnn=None if characters is None else CharCNNConfig(**characters), **settings)


def write_options(config: BiLMConfig, n_vocabulary: Optional[int] = None) -> Dict[str, Any]:
    """config (BiLMConfig): The config.
    n_vocabulary (Optional[int]): V of the softmax or of the word table, if there is one.
    RETURNS (Dict[str, Any]): Options that bilm-tf and AllenNLP read for inference.
    """
    options: Dict[str, Any] = {
        "bidirectional": config.directions == "both",
        "lstm": {
            "use_skip_connections": config.has_skip,
            "projection_dim": config.projection_width,
            "cell_clip": config.cell_clip,
            "proj_clip": config.projection_clip,
            "dim": config.cell_width,
            "n_layers": config.n_layers,
        },
    }
    if config.char_cnn is not None:
        options["char_cnn"] = {
            "activation": config.char_cnn.activation,
            "embedding": {"dim": config.char_cnn.embedding_width},
            "filters": [list(pair) for pair in config.char_cnn.filters],
            "max_characters_per_token": config.char_cnn.max_characters,
            "n_characters": N_CHARACTERS_INFERENCE,
            "n_highway": config.char_cnn.n_highway,
        }
    if n_vocabulary is not None:
        options["n_tokens_vocab"] = n_vocabulary
    return options


def official_options(
    *, cell_width: int, projection_width: int, n_layers: int, embedding_width: int, filters: List[Any], n_highway: int
) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Options for sizes that the shapes of weights tell. Clips and activation, which they do
    not, are those of the published models.
    """
    return {
        "lstm": {
            "dim": cell_width,
            "projection_dim": projection_width,
            "n_layers": n_layers,
            "use_skip_connections": True,
            "cell_clip": 3.0,
            "proj_clip": 3.0,
        },
        "char_cnn": {
            "embedding": {"dim": embedding_width},
            "filters": filters,
            "n_highway": n_highway,
            "activation": "relu",
        },
    }


def _lstm_settings(reader: SettingsReader) -> Dict[str, Any]:
    reader.take("lstm", Mapping, {})
    cell_width = reader.take("lstm.dim", int, least=1, most=MAX_WIDTH)
    projection_width = reader.take("lstm.projection_dim", int, least=1, most=MAX_WIDTH)
    if cell_width and projection_width and projection_width > cell_width:
        reader.refuse("lstm.projection_dim", projection_width, f"1 to lstm.dim ({cell_width})")
    return {
        "n_layers": reader.take("lstm.n_layers", int, 1, least=1, most=MAX_LAYERS),
        "cell_width": cell_width,
        "projection_width": projection_width,
        # null and 0 mean no clip: null in bilm-tf, both in AllenNLP.
        "cell_clip": reader.take("lstm.cell_clip", (int, float), None, least=0, most=MAX_ABSOLUTE) or None,
        "projection_clip": reader.take("lstm.proj_clip", (int, float), None, least=0, most=MAX_ABSOLUTE) or None,
        "has_skip": reader.take("lstm.use_skip_connections", bool, False),
    }


def _char_settings(reader: SettingsReader, projected_width: Optional[int]) -> Dict[str, Any]:
    """Settings of the character CNN. `projected_width` is the width of the projection in the weights, if any."""
    reader.take("char_cnn", Mapping, {})
    n_characters = reader.take("char_cnn.n_characters", int, N_CHARACTERS_INFERENCE)
    if n_characters is not None and n_characters not in KNOWN_N_CHARACTERS:
        reader.refuse("char_cnn.n_characters", n_characters, "261 (training) or 262 (inference)")
    activation = reader.take("char_cnn.activation", str)
    if activation is not None and activation not in ACTIVATIONS:
        reader.refuse("char_cnn.activation", activation, f"one of: {', '.join(ACTIVATIONS)}")
    name = "char_cnn.max_characters_per_token"
    max_characters = reader.take(name, int, DEFAULT_MAX_CHARACTERS, least=MIN_CHARACTERS, most=MAX_CHARACTERS)
    filters = read_filters(reader, "char_cnn.filters", max_characters)
    return {
        "embedding_width": reader.take("char_cnn.embedding.dim", int, least=1, most=MAX_WIDTH),
        "filters": filters,
        "activation": activation,
        "n_highway": reader.take("char_cnn.n_highway", int, 0, least=0, most=MAX_LAYERS),
        "max_characters": max_characters,
        "always_project": bool(filters) and sum(n for _, n in filters) == projected_width,
    }


# The datasets of a weights file of bilm-tf and AllenNLP, and their positions in our state dict.
#
# Gates are in the order i, j, f, o. The forget bias of 1.0 is neither in the file nor in our state dict.

CHAR_TABLE = "char_embed"
WORD_TABLE = "embedding"
SOFTMAX_WEIGHT = "softmax/W"
SOFTMAX_BIAS = "softmax/b"
CHAR_PROJECTION = "CNN_proj/W_proj"
FORWARD_ONLY_PREFIX = "rnn/"


def tf_datasets(config: BiLMConfig) -> List[Dataset]:
    """config (BiLMConfig): Sizes and switches.
    RETURNS (List[Dataset]): All datasets of its weights file under their regular names, without the softmax.
    """
    if config.char_cnn is None:
        table = [whole(WORD_TABLE, (config.n_words or 0, config.projection_width), "word_embedding")]
    else:
        table = _char_cnn_datasets(config.char_cnn)
    if config.char_cnn is not None and config.has_cnn_projection:
        weight = TensorSlice("char_cnn.projection.weight", transform=permute(1, 0))
        table.append(Dataset(CHAR_PROJECTION, (config.char_cnn.n_filters, config.projection_width), (weight,)))
        table.append(whole("CNN_proj/b_proj", (config.projection_width,), "char_cnn.projection.bias"))
    for direction in range(config.n_directions):
        for layer in range(config.n_layers):
            table += _lstm_datasets(config, direction, layer)
    return table


def regular_name(name: str) -> str:
    """Convert the name of a dataset in a one-layer or forward-only dump to its name in all other files.

    name (str): For example `RNN_0/RNN/LSTMCell/B`, `rnn/MultiRNNCell/Cell0/LSTMCell/kernel`.
    RETURNS (str): For example `RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B`; other names unchanged.
    """
    name = re.sub(r"^rnn/", "RNN_0/RNN/", name)
    if not name.startswith("RNN_"):
        return name
    name = re.sub(r"^(RNN_\d)/RNN/LSTMCell/", r"\1/RNN/MultiRNNCell/Cell0/LSTMCell/", name)
    endings = {"/projection/kernel": "/W_P_0", "/kernel": "/W_0", "/bias": "/B"}
    for theirs, regular in endings.items():
        if name.endswith(theirs):
            return name[: -len(theirs)] + regular
    return name


def _char_cnn_datasets(config: CharCNNConfig) -> List[Dataset]:
    width, n_filters = config.embedding_width, config.n_filters
    # Files have no row for the mask: our ids are larger by one, and our row 0 is zero.
    embedding = TensorSlice("char_cnn.embedding", at=(slice(1, None),))
    table = [Dataset(CHAR_TABLE, (config.n_characters, width), (embedding,))]
    for i, (window, n) in enumerate(config.filters):
        # (w, E, n) to (n, E, w)
        weight = TensorSlice(f"char_cnn.filters.{i}.weight", cut=(0,), transform=permute(2, 1, 0))
        table.append(Dataset(f"CNN/W_cnn_{i}", (1, window, width, n), (weight,)))
        table.append(whole(f"CNN/b_cnn_{i}", (n,), f"char_cnn.filters.{i}.bias"))
    for k in range(config.n_highway):
        for name, rows in (("transform", slice(None, n_filters)), ("carry", slice(n_filters, None))):
            weight = TensorSlice(f"char_cnn.highways.{k}.weight", at=(rows,), transform=permute(1, 0))
            bias = TensorSlice(f"char_cnn.highways.{k}.bias", at=(rows,))
            table.append(Dataset(f"CNN_high_{k}/W_{name}", (n_filters, n_filters), (weight,)))
            table.append(Dataset(f"CNN_high_{k}/b_{name}", (n_filters,), (bias,)))
    return table


def _lstm_datasets(config: BiLMConfig, direction: int, layer: int) -> List[Dataset]:
    base = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
    p, h, at = config.projection_width, config.cell_width, (direction,)
    weights = (
        TensorSlice(f"encoder.layers.{layer}.input_weight", at=at, cut=(slice(None, p),)),
        TensorSlice(f"encoder.layers.{layer}.recurrent_weight", at=at, cut=(slice(p, None),)),
    )
    table = [
        Dataset(base + "W_0", (2 * p, 4 * h), weights),
        Dataset(base + "B", (4 * h,), (TensorSlice(f"encoder.layers.{layer}.bias", at=at),)),
    ]
    if config.has_projection:
        projection = TensorSlice(f"encoder.layers.{layer}.projection_weight", at=at)
        table.append(Dataset(base + "W_P_0", (h, p), (projection,)))
    return table


# Models of bilm-tf and AllenNLP: read options.json and an HDF5 file into a `BiLM`, and write them bit-identically.

SOFTMAX_NAMES = (SOFTMAX_WEIGHT, SOFTMAX_BIAS)
EMBEDDINGS_KEY = "token_embeddings"  # of options, written here: the file whose vectors replace the characters


def read_bilm_tf(
    files: TFFiles,
    *,
    vocab: Optional[Source] = None,
    token_embeddings: Optional[Source] = None,
    softmax: Optional[Source] = None,
    arrays: Optional[Dict[str, Array]] = None,
    options: Any = None,
) -> BiLM:
    """Read a model of bilm-tf.

    files (TFFiles): Its files.
    vocab (Optional[Source]): A vocabulary that the user specifies, which must be valid. An invalid one next to the
        weights may be ignored.
    token_embeddings (Optional[Source]): Vectors of its words that the user specifies. A file of them next to the
        weights is used only if the options name it.
    softmax (Optional[Source]): HDF5 file with the softmax, if it is not in the weights.
    arrays (Optional[Dict[str, Array]]): The arrays under the names of bilm-tf, if the weights are not HDF5.
    options (Any): The options, if they are not in a file.
    RETURNS (BiLM): float32, whatever the dtype in the files.
    RAISES (ValueError): With all problems of all files.
    """
    found = read_hdf5(files.weights) if arrays is None else arrays
    is_forward_dump = any(name.startswith(FORWARD_ONLY_PREFIX) for name in found)
    arrays = {}
    for name, array in found.items():
        regular = regular_name(name)
        arrays[name if regular in arrays else regular] = array
    characters, table = arrays.get(CHAR_TABLE), arrays.get(WORD_TABLE)
    if characters is not None and len(characters.shape) == 2 and len(characters) == UTF8_CHARACTERS + 1:
        arrays[CHAR_TABLE] = characters[1:]  # a file that stores the mask row, which no word uses
    options = read_json(files.options) if options is None else options
    config = read_options(
        options,
        str(files.options),
        has_projection=CHAR_PROJECTION in arrays,
        n_words=None if table is None or not table.shape else len(table),
        forward_only=is_forward_dump,
    )
    head = {name: arrays.pop(name) for name in SOFTMAX_NAMES if name in arrays}
    wanted = {dataset.name: dataset.shape for dataset in tf_datasets(config)}
    if softmax is not None:
        head = read_hdf5(softmax)
    is_shared = bool(options.get("share_embedding_softmax")) and table is not None and SOFTMAX_WEIGHT not in head
    head_shapes = softmax_shapes(config, head, is_shared, is_needed=softmax is not None)
    if softmax is not None:
        refuse_misfits(find_misfits(wanted, arrays), files.weights, files.options)
        refuse_misfits(find_misfits(head_shapes, head), softmax, files.options)
    else:
        problems = find_misfits({**wanted, **head_shapes}, {**arrays, **head})
        refuse_misfits(problems, files.weights, files.options)
    embeddings = token_embeddings
    if embeddings is None and options.get(EMBEDDINGS_KEY) == TOKEN_EMBEDDINGS_NAME:
        embeddings = files.token_embeddings
    vectors = None if embeddings is None else _read_token_embeddings(embeddings, config.projection_width)
    rows = table_rows(table, head.get(SOFTMAX_BIAS), vectors)
    words = vocab or files.vocab
    if words is None and embeddings is not None:
        problem = "a vocabulary is missing: pass vocab=... (`--vocab`), one word per line in the order of the rows"
        raise bad_embeddings(embeddings, problem)
    vocabulary = None if words is None else read_vocabulary(words, vocab is not None or bool(rows))
    check_vocabulary(vocabulary, rows)
    if embeddings is None and files.token_embeddings is not None:
        text = (
            f"The word vectors in '{files.token_embeddings}' are not used, since no option names them: the biLM reads "
            "the characters of each word. To read these vectors instead, with all words outside the vocabulary as "
            "<UNK>, pass token_embeddings=... (`--token-embeddings`)."
        )
        warnings.warn(text, stacklevel=2)
    network = build_network(config, import_arrays(tf_datasets(config), arrays, network_shapes(config)))
    return BiLM(
        network,
        vocabulary=vocabulary,
        head=build_softmax(network, head, is_shared),
        token_embeddings=None if vectors is None else from_numpy(as_float32(vectors)),
        meta={"source_format": "bilm-tf"},
    )


def write_bilm_tf(bilm: BiLM, folder: Path, dtype: str) -> None:
    """Write options.json and weights.hdf5 (and vocab.txt) for bilm-tf and AllenNLP.

    bilm (BiLM): The model. Its softmax is written to the weights file; an adaptive softmax is omitted, with a warning.
    folder (Path): An empty folder.
    dtype (str): "float32", or "float16", which AllenNLP and bilm-tf do not expect.
    RAISES (ValueError): For parts that these programs do not have, such as highways between the layers.
    """
    if foreign := find_foreign_parts(bilm.config):
        listing = "; ".join(foreign)
        raise ValueError(
            f"This biLM cannot be saved in the bilm-tf format: {listing}. The vectors would differ. Save it with "
            'format "native".'
        )
    arrays, head = tf_arrays(bilm), bilm.head
    if isinstance(head, AdaptiveHead):
        warnings.warn(
            f"The adaptive softmax over {head.n_words} words is not saved: the bilm-tf format has only the full "
            'softmax. Vectors do not need it; save with format "native" (`--to native`) to keep it for perplexity and '
            "further training.",
            stacklevel=2,
        )
    n_vocabulary = len(arrays[SOFTMAX_BIAS]) if SOFTMAX_BIAS in arrays else bilm.config.n_words
    options = write_options(bilm.config, n_vocabulary)
    if is_head_shared(bilm.network, head):
        options["share_embedding_softmax"] = True
    if bilm.token_embeddings is not None:
        options[EMBEDDINGS_KEY] = TOKEN_EMBEDDINGS_NAME
        embeddings = {WORD_TABLE: bilm.token_embeddings.detach().cpu().numpy()}
        check_dtype_fits(embeddings, dtype)
        write_hdf5(folder / TOKEN_EMBEDDINGS_NAME, embeddings, dtype)
    check_dtype_fits(arrays, dtype)
    srsly.write_json(folder / "options.json", options)
    write_hdf5(folder / "weights.hdf5", arrays, dtype)
    if bilm.vocabulary is not None:
        write_vocabulary(folder / "vocab.txt", bilm.vocabulary)


def tf_arrays(bilm: BiLM) -> Dict[str, Array]:
    """RETURNS (Dict[str, Array]): All arrays by the names of their datasets; without an adaptive softmax."""
    arrays = export_arrays(tf_datasets(bilm.config), to_arrays(bilm.network))
    if isinstance(bilm.head, SoftmaxHead):
        head = to_arrays(bilm.head)
        arrays[SOFTMAX_BIAS] = head["bias"]
        if not is_head_shared(bilm.network, bilm.head):
            arrays[SOFTMAX_WEIGHT] = head["weight"]
    return arrays


def find_foreign_parts(config: BiLMConfig) -> List[str]:
    """RETURNS (List[str]): Parts of a biLM that bilm-tf and AllenNLP do not have."""
    checks = [
        (config.token_embedder is None, "it reads words and characters by tables of its own"),
        (config.encoder == "lstm", f"its encoder is '{config.encoder}'"),
        (not config.highway_between, "it has highways between its layers"),
        (not config.always_project or config.projection_width < config.cell_width, "its LSTM projects to more than H"),
    ]
    return [text for is_fine, text in checks if not is_fine] + find_other_characters(config)


def find_other_characters(config: BiLMConfig) -> List[str]:
    """RETURNS (List[str]): Parts of the character CNN that only transformers of AllenNLP have."""
    characters = config.char_cnn or CharCNNConfig()
    checks = [
        (not characters.has_layer_norm, "its character CNN has a layer norm (char_cnn.has_layer_norm)"),
        (
            characters.projection == "after_highway",
            "its character CNN projects before the highways (char_cnn.projection = 'after_cnn')",
        ),
    ]
    return [text for is_fine, text in checks if not is_fine]


def softmax_shapes(
    config: BiLMConfig, head_arrays: Dict[str, Array], is_shared: bool, is_needed: bool = False
) -> Dict[str, Shape]:
    """Expected shapes of the softmax. It has any number of rows, or that of the word table if this is shared."""
    if not head_arrays and not is_needed:
        return {}
    sized = head_arrays.get(SOFTMAX_WEIGHT, head_arrays.get(SOFTMAX_BIAS))
    n_words = (config.n_words or 0) if is_shared or sized is None or not sized.shape else len(sized)
    shapes: Dict[str, Shape] = {SOFTMAX_BIAS: (n_words,)}
    if not is_shared:
        shapes[SOFTMAX_WEIGHT] = (n_words, config.projection_width)
    return shapes


def build_softmax(network: BiLMNetwork, head_arrays: Dict[str, Array], is_shared: bool) -> Optional[SoftmaxHead]:
    if not head_arrays:
        return None
    weight = network.word_embedding if is_shared else None
    if weight is None:
        weight = nn.Parameter(from_numpy(as_float32(head_arrays[SOFTMAX_WEIGHT])))
    return build_head(weight, as_float32(head_arrays[SOFTMAX_BIAS]))


def bad_embeddings(path: object, problems: str) -> ValueError:
    """RETURNS (ValueError): A file cannot be used as token embeddings, and why."""
    return ValueError(
        f"'{path}' cannot be used as token embeddings: {problems}. Use a file with one dataset 'embedding' that has "
        "a row for each word of the vocabulary, as wide as one direction of the biLM."
    )


def _read_token_embeddings(source: Source, width: int) -> Array:
    """RETURNS (Array): Shape (V, P)."""
    arrays = read_hdf5(source)
    table = arrays.get(WORD_TABLE)
    problems = find_misfits({WORD_TABLE: (len(table) if table is not None and table.shape else 0, width)}, arrays)
    if table is None or problems:
        raise bad_embeddings(source, shorten("; ".join(problems)))
    return table
