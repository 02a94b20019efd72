"""Models of bilm-tf and AllenNLP: read options.json and an HDF5 file into a `BiLM`, and write them bit-identically."""

import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple, cast

import srsly
from torch import from_numpy, nn

from ...bilm.config import UTF8_CHARACTERS, BiLMConfig
from ...bilm.lm_head import AdaptiveHead, LMHead, SoftmaxHead
from ...bilm.model import BiLMNetwork
from ...encoding.facade import BiLM
from ...errors import Errors, Warnings
from ...text.vocabulary import Vocabulary
from ..limits import listed, shorten
from ..parts import (
    as_float32,
    build_head,
    build_network,
    check_dtype_fits,
    check_vocabulary,
    is_head_shared,
    read_vocabulary,
    table_rows,
    to_arrays,
    write_vocabulary,
)
from ..problems import Faults
from ..sources import Source, read_json
from ..tensor_map import Array, Shape, export_arrays, find_misfits, import_arrays
from .files import TOKEN_EMBEDDINGS_NAME, TFFiles
from .hdf5 import read_hdf5, write_hdf5
from .layout import (
    CHAR_PROJECTION,
    CHAR_TABLE,
    FORWARD_ONLY_PREFIX,
    SOFTMAX_BIAS,
    SOFTMAX_WEIGHT,
    WORD_TABLE,
    regular_name,
    state_shapes,
    tf_datasets,
)
from .options import read_options, write_options

SOFTMAX_NAMES = (SOFTMAX_WEIGHT, SOFTMAX_BIAS)
EMBEDDINGS_KEY = "token_embeddings"  # of options, written here: the file whose vectors replace the characters


ArrayReader = Callable[[Source], Dict[str, Array]]


def read_bilm_tf(
    files: TFFiles,
    *,
    vocab: Optional[Source] = None,
    token_embeddings: Optional[Source] = None,
    softmax: Optional[Source] = None,
    read_arrays: ArrayReader = read_hdf5,
) -> BiLM:
    """Read a model of bilm-tf.

    files (TFFiles): Its files.
    vocab (Optional[Source]): A vocabulary that the user specifies, which must be valid. An invalid one next to the
        weights may be ignored.
    token_embeddings (Optional[Source]): Vectors of its words that the user specifies. A file of them next to the
        weights is used only if the options name it.
    softmax (Optional[Source]): HDF5 file with the softmax, if it is not in the weights.
    read_arrays (ArrayReader): Reads the arrays of a file under the names of bilm-tf.
    RETURNS (BiLM): float32, whatever the dtype in the files.
    RAISES (ValueError): EL020 to EL029, EL036, EL038, or EL034 with all problems of several files.
    """
    faults = Faults()
    arrays, is_forward_dump = faults.attempt(_read_regular, files.weights, read_arrays) or (None, False)
    settings = faults.attempt(_read_options, files.options, arrays or {}, is_forward_dump)
    config, says_shared, says_embeddings = settings or (None, False, False)
    head_arrays: Optional[Dict[str, Array]] = {}
    if arrays is not None:
        head_arrays = {name: arrays.pop(name) for name in SOFTMAX_NAMES if name in arrays}
    if softmax is not None:
        head_arrays = faults.attempt(read_arrays, softmax)
    is_shared = says_shared and WORD_TABLE in (arrays or {}) and SOFTMAX_WEIGHT not in (head_arrays or {})
    _check_fit(faults, config, arrays, head_arrays, is_shared, files, softmax)
    beside = None if token_embeddings is not None else files.token_embeddings
    table = token_embeddings or (beside if says_embeddings else None)
    embeddings = faults.attempt(_read_token_embeddings, table, config, read_arrays)
    rows = table_rows((arrays or {}).get(WORD_TABLE), (head_arrays or {}).get(SOFTMAX_BIAS), embeddings)
    vocabulary = faults.attempt(_read_words, vocab or files.vocab, vocab is not None, table, rows)
    faults.raise_together(files.weights)
    if beside is not None and table is None:
        text = (
            f"The word vectors in '{beside}' are not used, since no option names them: the biLM reads the characters "
            "of each word. To read these vectors instead, with all words outside the vocabulary as <UNK>, pass "
            "token_embeddings=... (`--token-embeddings`)."
        )
        warnings.warn(text, stacklevel=2)
    return _build(cast(BiLMConfig, config), arrays or {}, head_arrays or {}, is_shared, vocabulary, embeddings)


def _build(
    config: BiLMConfig,
    arrays: Dict[str, Array],
    head_arrays: Dict[str, Array],
    is_shared: bool,
    vocabulary: Optional[Vocabulary],
    embeddings: Optional[Array],
) -> BiLM:
    network = build_network(config, import_arrays(tf_datasets(config), arrays, state_shapes(config)))
    return BiLM(
        network,
        vocabulary=vocabulary,
        head=_build_head(network, head_arrays, is_shared),
        token_embeddings=None if embeddings is None else from_numpy(as_float32(embeddings)),
        meta={"source_format": "bilm-tf"},
    )


def write_bilm_tf(bilm: BiLM, folder: Path, dtype: str) -> None:
    """Write options.json and weights.hdf5 (and vocab.txt) for bilm-tf and AllenNLP.

    bilm (BiLM): The model. Its softmax is written to the weights file; an adaptive softmax is omitted, with a warning.
    folder (Path): An empty folder.
    dtype (str): "float32", or "float16", which AllenNLP and bilm-tf do not expect.
    RAISES (ValueError): EL308 for parts that these programs do not have, such as highways between the layers.
    """
    if foreign := find_foreign_parts(bilm.config):
        raise ValueError(Errors.EL308.format(format="bilm-tf", problems="; ".join(foreign)))
    arrays = export_arrays(tf_datasets(bilm.config), to_arrays(bilm.network))
    n_vocabulary = bilm.config.n_words
    head = _writable_head(bilm.head)
    if head is not None:
        head_arrays = to_arrays(head)
        n_vocabulary = head.n_words
        arrays[SOFTMAX_BIAS] = head_arrays["bias"]
        if not is_head_shared(bilm.network, head):
            arrays[SOFTMAX_WEIGHT] = head_arrays["weight"]
    options = write_options(bilm.config, n_vocabulary)
    if is_head_shared(bilm.network, head):
        options["share_embedding_softmax"] = True
    if bilm.token_embeddings is not None:
        options[EMBEDDINGS_KEY] = TOKEN_EMBEDDINGS_NAME
    _write_files(bilm, folder, options, arrays, dtype)


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
    if config.char_cnn is None:
        return []
    checks = [
        (not config.char_cnn.has_layer_norm, "its character CNN has a layer norm (char_cnn.has_layer_norm)"),
        (
            config.char_cnn.projection == "after_highway",
            "its character CNN projects before the highways (char_cnn.projection = 'after_cnn')",
        ),
    ]
    return [text for is_fine, text in checks if not is_fine]


def _writable_head(head: Optional[LMHead]) -> Optional[LMHead]:
    if not isinstance(head, AdaptiveHead):
        return head
    warnings.warn(Warnings.WL021.format(n_words=head.n_words), stacklevel=2)
    return None


def _write_files(bilm: BiLM, folder: Path, options: Any, arrays: Dict[str, Array], dtype: str) -> None:
    check_dtype_fits(arrays, dtype)
    srsly.write_json(folder / "options.json", options)
    write_hdf5(folder / "weights.hdf5", arrays, dtype)
    if bilm.vocabulary is not None:
        write_vocabulary(folder / "vocab.txt", bilm.vocabulary)
    if bilm.token_embeddings is not None:
        embeddings = {WORD_TABLE: bilm.token_embeddings.detach().cpu().numpy()}
        check_dtype_fits(embeddings, dtype)
        write_hdf5(folder / TOKEN_EMBEDDINGS_NAME, embeddings, dtype)


def _read_regular(weights: Source, read_arrays: ArrayReader) -> "tuple[Dict[str, Array], bool]":
    """The arrays under their regular names, and whether the names are those of a forward-only dump."""
    found = read_arrays(weights)
    arrays: Dict[str, Array] = {}
    for name, array in found.items():
        regular = regular_name(name)
        arrays[name if regular in arrays else regular] = array
    characters = arrays.get(CHAR_TABLE)
    if characters is not None and len(characters.shape) == 2 and len(characters) == UTF8_CHARACTERS + 1:
        arrays[CHAR_TABLE] = characters[1:]  # a file that stores the mask row, which no word uses
    return arrays, any(name.startswith(FORWARD_ONLY_PREFIX) for name in found)


def _read_options(source: Source, arrays: Dict[str, Array], is_forward_dump: bool) -> Tuple[BiLMConfig, bool, bool]:
    """The config, and whether the options say that the softmax shares the word table, and that words are read from the
    token embeddings beside the weights.
    """
    options = read_json(source)
    table = arrays.get(WORD_TABLE)
    config = read_options(
        options,
        str(source),
        has_projection=CHAR_PROJECTION in arrays,
        n_words=None if table is None or not table.shape else len(table),
        forward_only=is_forward_dump,
    )
    return config, bool(options.get("share_embedding_softmax")), options.get(EMBEDDINGS_KEY) == TOKEN_EMBEDDINGS_NAME


def _check_fit(
    faults: Faults,
    config: Optional[BiLMConfig],
    arrays: Optional[Dict[str, Array]],
    head_arrays: Optional[Dict[str, Array]],
    is_shared: bool,
    files: TFFiles,
    softmax: Optional[Source],
) -> None:
    """Add one error with all problems of the arrays of a file. Without a config only values are checked."""
    if softmax is None:
        arrays, head_arrays = None if arrays is None else {**arrays, **(head_arrays or {})}, head_arrays or {}
    if arrays is not None:
        wanted = _shapes_of(arrays)
        if config is not None:
            wanted = {dataset.name: dataset.shape for dataset in tf_datasets(config)}
            wanted.update(_head_shapes(config, head_arrays or {}, is_shared) if softmax is None else {})
        faults.attempt(_refuse, find_misfits(wanted, arrays), files.weights, files.options)
    if softmax is not None and head_arrays is not None:
        wanted = _shapes_of(head_arrays)
        if config is not None:
            wanted = _head_shapes(config, head_arrays, is_shared, is_needed=True)
        faults.attempt(_refuse, find_misfits(wanted, head_arrays), softmax, files.options)


def _shapes_of(arrays: Dict[str, Array]) -> Dict[str, Shape]:
    return {name: array.shape for name, array in arrays.items()}


def _refuse(problems: "list[str]", path: Source, options: Source) -> None:
    if problems:
        settings = {"options": options, "n_problems": len(problems), "problems": listed(problems)}
        raise ValueError(Errors.EL026.format(path=path, **settings))


def _head_shapes(
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


def _build_head(network: BiLMNetwork, head_arrays: Dict[str, Array], is_shared: bool) -> Optional[SoftmaxHead]:
    if not head_arrays:
        return None
    weight = network.word_embedding if is_shared else None
    if weight is None:
        weight = nn.Parameter(from_numpy(as_float32(head_arrays[SOFTMAX_WEIGHT])))
    return build_head(weight, as_float32(head_arrays[SOFTMAX_BIAS]))


def _read_token_embeddings(
    source: Optional[Source], config: Optional[BiLMConfig], read_arrays: ArrayReader
) -> Optional[Array]:
    if source is None:
        return None
    arrays = read_arrays(source)
    table = arrays.get(WORD_TABLE)
    n_words = len(table) if table is not None and table.shape else 0
    wanted = _shapes_of(arrays) if config is None else {WORD_TABLE: (n_words, config.projection_width)}
    problems = find_misfits(wanted, arrays)
    if problems:
        raise ValueError(Errors.EL029.format(path=source, problems=shorten("; ".join(problems))))
    return table


def _read_words(
    source: Optional[Source], is_given: bool, token_embeddings: Optional[Source], rows: Dict[str, int]
) -> Optional[Vocabulary]:
    """The vocabulary, checked against the sizes of the tables that it belongs to."""
    if source is None and token_embeddings is not None:
        problems = "a vocabulary is missing: pass vocab=... (`--vocab`), one word per line in the order of the rows"
        raise ValueError(Errors.EL029.format(path=token_embeddings, problems=problems))
    vocabulary = read_vocabulary(source, is_given or bool(rows)) if source is not None else None
    check_vocabulary(vocabulary, rows)
    return vocabulary
