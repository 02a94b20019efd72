"""The format of bilm-tf's dumps, which AllenNLP publishes and reads: `options.json`, an HDF5 file, maybe `vocab.txt`.

Zips of NLPL have the same files. `save_bilm` adds `meta.json`, which other programs ignore. Vectors of words, from
`dump_token_embeddings` of bilm-tf, are HDF5 as well.
"""

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

import h5py
import srsly
from torch import from_numpy

from ...bilm.config import MAX_LAYERS, UTF8_CHARACTERS, BiLMConfig, CharCNNConfig, SettingsReader
from ...bilm.network import AdaptiveHead, SoftmaxHead
from ...errors import Errors
from ...inference.bilm import BiLM
from ...inference.digest import EMBEDDINGS
from ...settings import Flag, Whole
from ...util import shorten
from ..archive import (
    FIRST_VECTORS,
    HDF5_SUFFIXES,
    OPTIONS_NAME,
    VECTORS,
    VOCAB_NAME,
    WEIGHTS_WANTED,
    Array,
    File,
    Listing,
    ModelFiles,
    Shape,
    read_hdf5,
    read_object,
    write_hdf5,
    write_object,
)
from ..meta import FORMAT_KEY, META_NAME, make_file_meta, split_copy
from ..tensor_map import (
    TRANSPOSED,
    Dataset,
    TensorSlice,
    as_float32,
    check_dtype_fits,
    check_vocabulary,
    export_arrays,
    find_mismatches,
    is_head_shared,
    load_network,
    load_softmax,
    raise_mismatches,
    read_vocabulary,
    softmax_shapes,
    table_rows,
    to_arrays,
    whole,
    write_vocabulary,
)

TOKEN_EMBEDDINGS_NAME = "token_embeddings.hdf5"

# Names of datasets.
CHAR_TABLE = "char_embed"
WORD_TABLE = "embedding"
SOFTMAX_WEIGHT = "softmax/W"
SOFTMAX_BIAS = "softmax/b"
CHAR_PROJECTION = "CNN_proj/W_proj"
SOFTMAX_NAMES = (SOFTMAX_WEIGHT, SOFTMAX_BIAS)
EMBEDDINGS_OPTION = "token_embeddings"  # of options, written here: the file whose vectors replace the characters
TOKEN_EMBEDDINGS = (
    "it has token embeddings, one vector per word. Give the weights of the biLM, and this file as `token_embeddings`"
)
# TensorFlow renamed the variables of LSTMs in 1.0 (`RNN/MultiRNNCell/Cell0/LSTMCell/W_0` to
# `rnn/multi_rnn_cell/cell_0/lstm_cell/weights`) and in 1.2 (`weights` to `kernel`). Modules of TF-Hub have both kinds
# of scopes: `RNN/MultiRNNCell/Cell0/rnn/lstm_cell/kernel`. Names of models of one layer do not contain the cell.
LSTM_VARIABLE = re.compile(
    r"(?:RNN_(?P<direction>\d+)/)?(?:rnn|RNN)/(?:(?:multi_rnn_cell|MultiRNNCell)/(?:cell_|Cell)(?P<layer>\d+)/)?"
    r"(?:rnn/)?(?:lstm_cell|LSTMCell)/(?P<kind>[\w/]+)"
)
LSTM_KINDS = {
    **dict.fromkeys(("kernel", "weights", "W_0"), "W_0"),
    **dict.fromkeys(("bias", "biases", "B"), "B"),
    **dict.fromkeys(("projection/kernel", "projection/weights", "W_P_0"), "W_P_0"),
}
# For each of our settings its name in options.json and its default, ... for none. A clip of 0 is none in AllenNLP.
LSTM_OPTIONS = {
    "n_layers": ("lstm.n_layers", 1),
    "cell_width": ("lstm.dim", ...),
    "projection_width": ("lstm.projection_dim", ...),
    "cell_clip": ("lstm.cell_clip", None),
    "projection_clip": ("lstm.proj_clip", None),
    "has_skip": ("lstm.use_skip_connections", False),
}
CHARACTER_SETTINGS = {
    "embedding_width": ("char_cnn.embedding.dim", ...),
    "filters": ("char_cnn.filters", ...),
    "activation": ("char_cnn.activation", ...),
    "n_highway": ("char_cnn.n_highway", 0),
    "max_characters": ("char_cnn.max_characters_per_token", 50),
}
N_CHARACTERS_OPTION = "char_cnn.n_characters"
N_CHARACTERS_INFERENCE = 262
KNOWN_N_CHARACTERS = (261, 262)


def detect_bilm_tf(listing: Listing) -> Optional[ModelFiles]:
    """Find options.json and an HDF5 file in a folder or zip, or one of the two, with the other in the same folder.

    RAISES (ValueError): EL020 for an HDF5 file without options, EL021 for several candidates, EL022 for a damaged zip.
    """
    file = listing.file
    if listing.kind == "hdf5" or (file is not None and file.name.lower().endswith(HDF5_SUFFIXES)):
        return _beside_weights(file or File(listing.path), listing.files)
    if file is not None and file.name.endswith(OPTIONS_NAME):
        return _beside_options(file, listing.files)
    return _find_pair(str(listing.path), listing.files) if listing.kind in ("folder", "zip") else None


def _beside_weights(weights: File, beside: Mapping[str, File]) -> ModelFiles:
    """The options with the same prefix as the weights, else options.json, else the only options in the folder."""
    stem = Path(weights.name).stem
    prefix = re.sub(r"(weights|model)$", "", stem)
    names = [f"{prefix}{OPTIONS_NAME}", f"{stem}_{OPTIONS_NAME}", f"{stem}.json", OPTIONS_NAME]
    options = next((beside[name] for name in names if name in beside), None)
    if options is None:
        candidates = find_options(beside)
        if not candidates and (content := describe_other_hdf5(weights.path)) is not None:
            raise ValueError(Errors.EL020.format(path=weights, reason=content, expected=WEIGHTS_WANTED))
        options = only_file(candidates, str(weights), "options", names)
    vocab, meta = (beside.get(prefix + name, beside.get(name)) for name in (VOCAB_NAME, META_NAME))
    return ModelFiles(str(weights), weights, {}, options, vocab, beside.get(TOKEN_EMBEDDINGS_NAME), meta)


def _beside_options(options: File, beside: Mapping[str, File]) -> Optional[ModelFiles]:
    """The files in the folder of the options: those with the same prefix, if weights are among them."""
    prefix = options.name.removesuffix(OPTIONS_NAME)
    rest = {name: file for name, file in beside.items() if not name.endswith(OPTIONS_NAME)}
    named = {name: rest[name] for name in rest if name.startswith(prefix) or not name.lower().endswith(HDF5_SUFFIXES)}
    is_named = any(name.lower().endswith(HDF5_SUFFIXES) for name in named)
    return _find_pair(str(options), {options.name: options, **(named if is_named else rest)})


def _find_pair(where: str, files: Mapping[str, File]) -> Optional[ModelFiles]:
    """Exactly one options file and one weights file among the files of a folder or zip, or None."""
    options = find_options(files)
    candidates = [file for file in files.values() if not file.name.endswith(TOKEN_EMBEDDINGS_NAME)]
    named = [file for file in candidates if file.name.lower().endswith(HDF5_SUFFIXES)]
    weights = [file for file in named if file.kind in ("hdf5", "")]  # damaged files, too, for their error
    if options and not weights:  # another suffix
        weights = [file for file in candidates if file.kind == "hdf5"]
    if len(weights) > 1:  # vectors that were computed with the weights may lie beside them
        weights = [file for file in weights if file.member or not describe_other_hdf5(file.path)] or weights
    if not weights or not options:
        return None
    first = {file.name: file for file in reversed(list(files.values()))}  # in a zip in any folder
    return ModelFiles(
        where,
        only_file(weights, where, "HDF5 weights", ["weights.hdf5"]),
        {},
        only_file(options, where, "options", [OPTIONS_NAME]),
        *(first.get(name) for name in (VOCAB_NAME, TOKEN_EMBEDDINGS_NAME, META_NAME)),
    )


def find_options(files: Mapping[str, File]) -> List[File]:
    return [file for file in files.values() if file.name.endswith(OPTIONS_NAME)]


def only_file(
    files: Sequence[File], where: object, kind: str, names: Iterable[str], beside: str = "an HDF5 file"
) -> File:
    """The only one of the files of a kind, which have one of the names as a rule; they belong to the file `where`,
    which is `beside`. ValueError EL020 without any, EL021 for several.
    """
    if not files:
        reason = f"it is {beside} without {kind} in the same folder"
        expected = f"{' or '.join(names)}, or a file given as `options`"
        raise ValueError(Errors.EL020.format(path=where, reason=reason, expected=expected))
    if len(files) > 1:
        listing = ", ".join(file.name for file in files)
        raise ValueError(Errors.EL021.format(path=where, n=len(files), kind=kind, names=listing))
    return files[0]


def describe_other_hdf5(path: Path) -> Optional[str]:
    """The content of an HDF5 file that has no weights of a biLM; None for all other files."""
    try:
        with h5py.File(path) as file:
            if any(name in file for name in FIRST_VECTORS):
                return VECTORS
            return TOKEN_EMBEDDINGS if len(file) == 1 and WORD_TABLE in file else None
    except OSError:  # damaged or compressed: its reader reports it
        return None


def read_options(
    options: Mapping[str, Any],
    source: str,
    *,
    has_projection: bool = False,
    n_words: Optional[int] = None,
    forward_only: bool = False,
) -> BiLMConfig:
    """Convert parsed options to a config. Three properties are taken from the weights file, since options omit them, or
    differ in training and inference.

    has_projection (bool): Whether the weights have a character projection, even if bilm-tf would have none.
    n_words (Optional[int]): Rows of the word table in the weights, for options without `char_cnn`.
    forward_only (bool): Whether the weights have names of a forward model.
    RAISES (ValueError): EL023 with all problems.
    """
    reader = SettingsReader(options)
    record = reader.read(LSTM_OPTIONS)
    if reader.has("char_cnn"):
        record["char_cnn"] = reader.read(CHARACTER_SETTINGS)
        n_characters = reader.take(N_CHARACTERS_OPTION, Any, N_CHARACTERS_INFERENCE)
        if n_characters not in KNOWN_N_CHARACTERS:
            reader.reject(N_CHARACTERS_OPTION, n_characters, "261 (training) or 262 (inference)")
    else:
        stated = reader.take("n_tokens_vocab", Whole, None)
        if n_words is None and stated is None:
            reader.add("char_cnn", "is missing, and there is no n_tokens_vocab and no word table in the weights")
            n_words = 1
        elif n_words is not None and stated is not None and n_words != stated:
            reader.add("n_tokens_vocab", f"is {stated}, but the word table of the weights has {n_words} rows")
        record["n_words"] = stated if n_words is None else n_words
    is_bidirectional = reader.take("bidirectional", Flag, True)
    record["directions"] = "forward" if forward_only or is_bidirectional is False else "both"
    config = reader.build(record)
    if config is None:
        raise ValueError(Errors.EL023.format(path=source, problems=shorten("; ".join(reader.describe()))))
    if config.char_cnn is None or not has_projection or config.has_cnn_projection:
        return config
    return replace(config, char_cnn=replace(config.char_cnn, always_project=True))


def _write_options(config: BiLMConfig, n_vocabulary: Optional[int] = None) -> Dict[str, Any]:
    """Options that bilm-tf and AllenNLP read for inference.

    n_vocabulary (Optional[int]): Rows of the softmax or of the word table.
    """
    values: Dict[str, Any] = {"bidirectional": config.directions == "both"}
    values.update({name: getattr(config, ours) for ours, (name, _) in LSTM_OPTIONS.items()})
    if config.char_cnn is not None:
        values.update({name: getattr(config.char_cnn, ours) for ours, (name, _) in CHARACTER_SETTINGS.items()})
        values[N_CHARACTERS_OPTION] = N_CHARACTERS_INFERENCE
    options: Dict[str, Any] = {}
    for name, value in values.items():
        *path, last = name.split(".")
        block = options
        for key in path:
            block = block.setdefault(key, {})
        block[last] = value
    return options if n_vocabulary is None else {**options, "n_tokens_vocab": n_vocabulary}


def derive_options(
    shapes: Mapping[str, Shape], names: Mapping[str, str], filter_rank: int, where: object
) -> Dict[str, Any]:
    """Options for the sizes that follow from shapes, with the clips and the activation of the published models.

    shapes (Mapping[str, Shape]): Of arrays by name, each with its outputs last.
    names (Mapping[str, str]): Names of the arrays whose shapes give a size, `{}` for a number: "characters", "filters",
        "highways", "gates" of the LSTMs, and "projections" if there are any.
    filter_rank (int): Dimensions of a convolution.
    where (object): The file of the arrays.
    RAISES (ValueError): If an array is missing or has another number of dimensions.
    """
    n_filters, n_highway, n_layers = (_count_numbered(shapes, names[kind]) for kind in ("filters", "highways", "gates"))
    filters = [names["filters"].format(i) for i in range(max(1, min(n_filters, MAX_LAYERS + 1)))]
    cells = [names[kind].format(0) for kind in ("gates", "projections") if kind in names]
    ranks = {**dict.fromkeys(filters, filter_rank), **dict.fromkeys([names["characters"], *cells], 2)}
    problems = [
        f"{shorten(name, 80)} is {f'of {len(shapes[name])}' if name in shapes else 'missing'}, should have {rank} "
        "dimensions"
        for name, rank in ranks.items()
        if name not in shapes or len(shapes[name]) != rank
    ]
    if problems:
        raise ValueError(
            f"The sizes of the biLM in '{where}' cannot be derived from arrays: {shorten('; '.join(problems))}. Use "
            "weights that have all arrays of an ELMo."
        )
    cell_width = shapes[cells[0]][-1] // 4
    lstm = {
        "dim": cell_width,
        "projection_dim": shapes[cells[1]][-1] if cells[1:] else cell_width,
        "n_layers": n_layers,
    }
    words = {
        "embedding": {"dim": shapes[names["characters"]][-1]},
        "filters": [[shapes[name][-3], shapes[name][-1]] for name in filters],
        "n_highway": n_highway,
        "activation": "relu",
    }
    return {"lstm": {**lstm, "use_skip_connections": True, "cell_clip": 3.0, "proj_clip": 3.0}, "char_cnn": words}


def _count_numbered(names: Iterable[str], pattern: str) -> int:
    """The largest number in names that match, plus one; 0 if no name matches."""
    expression = re.compile(re.escape(pattern).replace(r"\{\}", r"(\d+)"))
    return max((int(match[1][:9]) + 1 for name in names if (match := expression.fullmatch(name))), default=0)


def tf_datasets(config: BiLMConfig) -> List[Dataset]:
    """All datasets of a weights file under their regular names, without the softmax."""
    if config.char_cnn is None:
        table = [whole(WORD_TABLE, (config.n_words or 0, config.projection_width), "word_embedding")]
    else:
        table = _char_cnn_datasets(config.char_cnn)
    if config.char_cnn is not None and config.has_cnn_projection:
        weight = TensorSlice("char_cnn.projection.weight", transform=TRANSPOSED)
        table.append(Dataset(CHAR_PROJECTION, (config.char_cnn.n_filters, config.projection_width), (weight,)))
        table.append(whole("CNN_proj/b_proj", (config.projection_width,), "char_cnn.projection.bias"))
    for direction in range(config.n_directions):
        for layer in range(config.n_layers):
            table += lstm_datasets(config, direction, layer)
    return table


def regular_name(name: str) -> str:
    """The name that most dumps have for a variable of an LSTM, such as `RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B`; other
    names are unchanged. Dumps of one layer or of a forward model, and checkpoints, have the names of `LSTM_VARIABLE`.
    """
    match = LSTM_VARIABLE.fullmatch(name)
    if match is None or match["kind"] not in LSTM_KINDS:
        return name
    cell = f"RNN_{match['direction'] or 0}/RNN/MultiRNNCell/Cell{match['layer'] or 0}/LSTMCell/"
    return cell + LSTM_KINDS[match["kind"]]


def is_forward_only(name: str) -> bool:
    """Whether this is the name of a variable of an LSTM without a direction, which only forward models have."""
    match = LSTM_VARIABLE.fullmatch(name)
    return match is not None and match["direction"] is None


def _char_cnn_datasets(config: CharCNNConfig) -> List[Dataset]:
    width, n_filters = config.embedding_width, config.n_filters
    # Files have no row for the mask: our ids are larger by one, and our row 0 is zero.
    embedding = TensorSlice("char_cnn.embedding", state_index=(slice(1, None),))
    table = [Dataset(CHAR_TABLE, (config.n_characters, width), (embedding,))]
    for i, (window, n) in enumerate(config.filters):
        # (w, E, n) to (n, E, w)
        weight = TensorSlice(f"char_cnn.filters.{i}.weight", file_index=(0,), transform=TRANSPOSED)
        table.append(Dataset(f"CNN/W_cnn_{i}", (1, window, width, n), (weight,)))
        table.append(whole(f"CNN/b_cnn_{i}", (n,), f"char_cnn.filters.{i}.bias"))
    for k in range(config.n_highway):
        for name, rows in (("transform", slice(None, n_filters)), ("carry", slice(n_filters, None))):
            weight = TensorSlice(f"char_cnn.highways.{k}.weight", state_index=(rows,), transform=TRANSPOSED)
            bias = TensorSlice(f"char_cnn.highways.{k}.bias", state_index=(rows,))
            table.append(Dataset(f"CNN_high_{k}/W_{name}", (n_filters, n_filters), (weight,)))
            table.append(Dataset(f"CNN_high_{k}/b_{name}", (n_filters,), (bias,)))
    return table


def cell_of(direction: int, layer: int) -> str:
    """Prefix of the datasets of an LSTM layer of one direction."""
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"


def lstm_datasets(config: BiLMConfig, direction: int, layer: int, input_width: Optional[int] = None) -> List[Dataset]:
    """The datasets of an LSTM layer of one direction; the width of its input is P by default."""
    base = cell_of(direction, layer)
    p, h, at = config.projection_width, config.cell_width, (direction,)
    n_in = p if input_width is None else input_width
    weights = (
        TensorSlice(f"encoder.layers.{layer}.input_weight", state_index=at, file_index=(slice(None, n_in),)),
        TensorSlice(f"encoder.layers.{layer}.recurrent_weight", state_index=at, file_index=(slice(n_in, None),)),
    )
    table = [
        Dataset(base + "W_0", (n_in + p, 4 * h), weights),
        Dataset(base + "B", (4 * h,), (TensorSlice(f"encoder.layers.{layer}.bias", state_index=at),)),
    ]
    if config.has_projection:
        projection = TensorSlice(f"encoder.layers.{layer}.projection_weight", state_index=at)
        table.append(Dataset(base + "W_P_0", (h, p), (projection,)))
    return table


def read_bilm_tf(
    files: ModelFiles,
    *,
    vocab: Optional[File] = None,
    token_embeddings: Optional[File] = None,
    softmax: Optional[File] = None,
) -> BiLM:
    """Read a model of bilm-tf, float32, whatever the dtype in the files.

    vocab (Optional[File]), token_embeddings (Optional[File]), softmax (Optional[File]): See `build_bilm_tf`.
    RAISES (ValueError): With all problems of all files.
    """
    where = files.options or files.weights
    arrays = read_hdf5(files.weights)
    if set(arrays) == {WORD_TABLE}:
        raise ValueError(Errors.EL020.format(path=files.weights, reason=TOKEN_EMBEDDINGS, expected=WEIGHTS_WANTED))
    words = {"vocab": vocab, "token_embeddings": token_embeddings, "softmax": softmax}
    return build_bilm_tf(files, arrays, read_object(where, "options"), where, **words)


def build_bilm_tf(
    files: ModelFiles,
    stored: Mapping[str, Array],
    options: Mapping[str, Any],
    where: object,
    *,
    vocab: Optional[File] = None,
    token_embeddings: Optional[File] = None,
    softmax: Optional[File] = None,
) -> BiLM:
    """Build a biLM from arrays under the names of bilm-tf and parsed options, which are from `where`.

    vocab (Optional[File]): A vocabulary that the user specifies, which must be valid. An invalid one next to the
        weights may be ignored.
    token_embeddings (Optional[File]): Vectors of its words that the user specifies. A file of them next to the weights
        is used only if the options name it.
    softmax (Optional[File]): HDF5 file with the softmax, if it is not in the weights.
    RAISES (ValueError): With all problems of all files.
    """
    arrays = _make_names_regular(stored)
    table = arrays.get(WORD_TABLE)
    config = read_options(
        options,
        str(where),
        has_projection=CHAR_PROJECTION in arrays,
        n_words=None if table is None or not table.shape else len(table),
        forward_only=any(map(is_forward_only, stored)),
    )
    head = _take_softmax(arrays, softmax)
    is_shared = bool(options.get("share_embedding_softmax")) and table is not None and SOFTMAX_WEIGHT not in head
    expected = {dataset.name: dataset.shape for dataset in tf_datasets(config)}
    head_shapes = softmax_shapes(SOFTMAX_NAMES, head, config, is_shared=is_shared, is_needed=softmax is not None)
    checks = [(files.weights, expected, arrays), (softmax, head_shapes, head)]
    if softmax is None:  # one error for all that is in the file
        checks = [(files.weights, {**expected, **head_shapes}, {**arrays, **head})]
    for path, shapes, values in checks:
        raise_mismatches(find_mismatches(shapes, values), path, where)
    embeddings = _choose_embeddings(files, options, token_embeddings)
    vectors = None if embeddings is None else read_token_embeddings(embeddings, config.projection_width)
    rows = table_rows(table, head.get(SOFTMAX_BIAS), vectors)
    words = vocab or files.vocab
    if words is None and embeddings is not None:
        problem = "a vocabulary is missing: pass `vocab`, one word per line in the order of the rows"
        raise _bad_embeddings(embeddings, problem)
    vocabulary = None if words is None else read_vocabulary(words, vocab is not None or bool(rows))
    check_vocabulary(vocabulary, rows, words)
    network = load_network(config, tf_datasets(config), arrays)
    meta, copied = split_copy(_read_meta(files.meta))
    return BiLM(
        network,
        vocabulary=vocabulary,
        head=load_softmax(SOFTMAX_NAMES, head, network, is_shared=is_shared),
        token_embeddings=None if vectors is None else from_numpy(vectors),
        meta={**meta, FORMAT_KEY: "bilm-tf"},
        rounded_copy=copied,
    )


def _make_names_regular(stored: Mapping[str, Array]) -> Dict[str, Array]:
    """The arrays by their regular names, without the row of the mask in the table of characters, which no word uses."""
    arrays: Dict[str, Array] = {}
    for name, array in stored.items():
        regular = regular_name(name)
        arrays[name if regular in arrays else regular] = array
    characters = arrays.get(CHAR_TABLE)
    if characters is not None and characters.ndim == 2 and len(characters) == UTF8_CHARACTERS + 1:
        arrays[CHAR_TABLE] = characters[1:]
    return arrays


def _take_softmax(arrays: Dict[str, Array], softmax: Optional[File]) -> Dict[str, Array]:
    """The arrays of the softmax, which are removed from the others, or the arrays of a file of its own."""
    head = {name: arrays.pop(name) for name in SOFTMAX_NAMES if name in arrays}
    if softmax is None:
        return head
    stored = read_hdf5(softmax)
    return {name: stored[name] for name in SOFTMAX_NAMES if name in stored}


def _choose_embeddings(
    files: ModelFiles, options: Mapping[str, Any], token_embeddings: Optional[File]
) -> Optional[File]:
    """The file of token embeddings that the user gives, else one beside the weights that the options name."""
    if token_embeddings is None and files.token_embeddings is not None:
        if options.get(EMBEDDINGS_OPTION) == TOKEN_EMBEDDINGS_NAME:
            return files.token_embeddings
        text = (
            f"The word vectors in '{files.token_embeddings}' are not used, since no option names them: the biLM reads "
            "the characters of each word. To read these vectors instead, with all words outside the vocabulary as "
            "<UNK>, pass `token_embeddings`."
        )
        warnings.warn(text, stacklevel=2)
    return token_embeddings


def write_bilm_tf(bilm: BiLM, folder: Path, dtype: str) -> None:
    """Write options.json and weights.hdf5 (and vocab.txt) for bilm-tf and AllenNLP, and meta.json, which they ignore,
    to an empty folder. An adaptive softmax is omitted, with a warning. AllenNLP and bilm-tf do not expect "float16".

    RAISES (ValueError): For properties that these programs do not have, such as highways between the layers.
    """
    if foreign := find_unsupported_settings(bilm.config):
        listing = "; ".join(foreign)
        raise ValueError(
            f"This biLM cannot be saved in the bilm-tf format: {listing}. The vectors would differ. Save it with "
            'format "native".'
        )
    weights, head = to_arrays(bilm.network), bilm.head
    arrays = export_arrays(tf_datasets(bilm.config), weights)
    if isinstance(head, SoftmaxHead):
        softmax = to_arrays(head)
        arrays[SOFTMAX_BIAS] = softmax["bias"]
        if not is_head_shared(bilm.network, head):
            arrays[SOFTMAX_WEIGHT] = softmax["weight"]
    elif isinstance(head, AdaptiveHead):
        warnings.warn(
            f"The adaptive softmax over {head.n_words} words is not saved: the bilm-tf format has only the full "
            'softmax. Vectors do not need it; save with format "native" to keep it for perplexity and '
            "further training.",
            stacklevel=2,
        )
    n_vocabulary = len(arrays[SOFTMAX_BIAS]) if SOFTMAX_BIAS in arrays else bilm.config.n_words
    options = _write_options(bilm.config, n_vocabulary)
    if is_head_shared(bilm.network, head):
        options["share_embedding_softmax"] = True
    if bilm.token_embeddings is not None:
        options[EMBEDDINGS_OPTION] = TOKEN_EMBEDDINGS_NAME
        weights[EMBEDDINGS] = bilm.token_embeddings.detach().cpu().numpy()
        embeddings = {WORD_TABLE: weights[EMBEDDINGS]}
        check_dtype_fits(embeddings, dtype)
        write_hdf5(folder / TOKEN_EMBEDDINGS_NAME, embeddings, dtype)
    check_dtype_fits(arrays, dtype)
    meta = make_file_meta(bilm, dtype, {name: array.astype(dtype, copy=False) for name, array in weights.items()})
    meta.pop(FORMAT_KEY, None)
    if meta:
        write_object(folder / META_NAME, meta)
    srsly.write_json(folder / OPTIONS_NAME, options)
    write_hdf5(folder / "weights.hdf5", arrays, dtype)
    if bilm.vocabulary is not None:
        write_vocabulary(folder / VOCAB_NAME, bilm.vocabulary)


def _read_meta(file: Optional[File]) -> Dict[str, Any]:
    """The content of a meta.json that any program may have written; empty, with a warning, if it cannot be read."""
    try:
        return {} if file is None else read_object(file, "meta data")
    except ValueError as error:
        text = f"{error} The biLM is loaded without these meta data (name, language, licence): no vector needs them."
        warnings.warn(text, stacklevel=2)
        return {}


def find_unsupported_settings(config: BiLMConfig) -> List[str]:
    """Properties of a biLM that bilm-tf and AllenNLP's ELMo do not have."""
    characters = config.char_cnn or CharCNNConfig()
    checks = [
        (config.token_embedder is None, "it reads words and characters by tables of its own"),
        (config.encoder == "lstm", f"its encoder is '{config.encoder}'"),
        (not config.highway_between, "it has highways between its layers"),
        (not config.always_project or config.projection_width < config.cell_width, "its LSTM projects to more than H"),
        (not characters.has_layer_norm, "its character CNN has a layer norm (char_cnn.has_layer_norm)"),
        (
            characters.projection == "after_highway",
            "its character CNN projects before the highways (char_cnn.projection = 'after_cnn')",
        ),
    ]
    return [text for is_fine, text in checks if not is_fine]


def _bad_embeddings(path: object, problems: str) -> ValueError:
    return ValueError(
        f"'{path}' cannot be used as token embeddings: {problems}. Use a file with one dataset 'embedding' that has "
        "a row for each word of the vocabulary, as wide as one direction of the biLM."
    )


def read_token_embeddings(file: File, width: int) -> Array:
    """The table of word vectors in a file, (V, P), float32. ValueError for a file of another kind or width."""
    arrays = {name: array for name, array in read_hdf5(file).items() if name == WORD_TABLE}
    table = arrays.get(WORD_TABLE)
    problems = find_mismatches({WORD_TABLE: (len(table) if table is not None and table.shape else 0, width)}, arrays)
    if table is None or problems:
        raise _bad_embeddings(file, shorten("; ".join(problems)))
    return as_float32(table)
