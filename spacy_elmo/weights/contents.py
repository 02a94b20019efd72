"""What a biLM contains and what can be done with it, how two biLMs differ, and a checksum of the files of one."""

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch

from ..bilm.network import BiLMNetwork
from ..files import hash_file, walk_files
from ..inference.bilm import BiLM
from ..inference.kernel import find_unsupported
from ..inference.products import quantizable_names
from ..util import DIRECTIONS, PRECISIONS, find_changes
from .archive import Array, File, Listing, PathLike
from .formats import FORMATS, INT8
from .formats.pipelines import detect_pipeline
from .load import detect_format, detect_pair, locate_model, split_name
from .meta import mixes_from_meta, read_record
from .tensor_map import count_numbers, to_arrays

N_DIGITS = 12  # of a sha256, in hexadecimal
# Files beside the weights: settings and words, which change with the weights or do not matter to vectors.
BESIDE = (".json", ".txt", ".md", ".tsv", ".jsonl")
SAME, DIFFERENT, PERMUTED, RESHAPED, ONLY_A, ONLY_B = "same", "different", "permuted", "other shape", "only A", "only B"
VECTOR_TOLERANCE = 2e-5  # float32 sums in another order differ by less
BATCH_SENTENCES = 256
MAX_SORTED = 2**26  # numbers of a tensor up to which a permutation is looked for

# Sentences of many lengths, with words that are long, empty, of other scripts, of several code points or not valid.
COMPARED_SENTENCES: Tuple[Tuple[str, ...], ...] = (
    ("She", "sat", "on", "the", "bank", "of", "the", "river", "."),
    ("The", "bank", "raised", "its", "rates", "by", "0.25", "%", "on", "2019-03-01", "!"),
    ("Hello",),
    (".",),
    ("caf\u00e9", "cafe\u0301", "na\u00efve", "\u00dcberma\u00df", "\u0130stanbul"),
    ("\u6771\u4eac", "\ud55c\uad6d", "\u0440\u0435\u043a", "\u0627\u0644\u0646\u0647\u0631", "\u0928\u0926\u0940"),
    ("\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "zero\u200bwidth", "\u3000", "\u00a0"),
    ("a" * 47, "b" * 48, "c" * 49, "\u00e9" * 30, "\u6771" * 60),
    ("<S>", "</S>", "<UNK>", "", " ", "tab\there", "ends\ud800here"),
    ("UPPER", "lower", "MiXeD", "don't", "rock-'n'-roll", "http://example.org/?q=1", "@user", "#tag"),
    ("the", "unseen", "bank") * 30,
)


@dataclass(frozen=True)
class FileFacts:
    """A file of a biLM: its path, size and checksum."""

    name: str
    n_bytes: int
    sha256: str


@dataclass(frozen=True)
class Origin:
    """Where a biLM is from.

    path (str), format (str): The folder or file, and the name of its format.
    files (Tuple[FileFacts, ...]): Its files; an archive is one file.
    download (Optional[Dict[str, Any]]): The record of `elmo download`.
    """

    path: str
    format: str
    files: Tuple[FileFacts, ...]
    download: Optional[Dict[str, Any]]

    @property
    def n_bytes(self) -> int:
        return sum(file.n_bytes for file in self.files)


@dataclass(frozen=True)
class Capability:
    """A use of a biLM, whether this biLM can be used for it, and why not, or how."""

    name: str
    is_possible: bool
    reason: str = ""


@dataclass(frozen=True)
class Contents:
    """The contents of a biLM.

    settings (Dict[str, Any]): The config, nested blocks flattened with dots, and the width of a vector.
    n_parameters (Dict[str, int]): Parameters per module.
    gates (List[Tuple[str, str, float]]): Module, gate, and its mean activation at input zero, from 0 to 1.
    vocabulary (Optional[Dict[str, Any]]): Number of words and the first of them.
    lexicon (Optional[Dict[str, Any]]): Number of characters and words in the tables of a token embedder.
    meta (Dict[str, Any]): Information about the training.
    problems (List[str]): Limitations of this biLM, and their reasons.
    architecture (str): The network in one sentence.
    capabilities (List[Capability]): What can be done with it, what cannot, and why.
    origin (Optional[Origin]): Format and files, None for a biLM that was not read from a path.
    mixes (List[Dict[str, Any]]): Scalar mixes trained with it: raw weights, shares (their softmax), gamma and norm.
    """

    settings: Dict[str, Any]
    n_parameters: Dict[str, int]
    gates: List[Tuple[str, str, float]]
    vocabulary: Optional[Dict[str, Any]]
    lexicon: Optional[Dict[str, Any]]
    meta: Dict[str, Any]
    problems: List[str]
    architecture: str
    capabilities: List[Capability]
    origin: Optional[Origin]
    mixes: List[Dict[str, Any]]


def read_contents(bilm: BiLM, origin: Optional[Origin] = None) -> Contents:
    """The contents of a loaded biLM, and its origin if it is known; no vector is computed."""
    words = bilm.vocabulary.words if bilm.vocabulary is not None else None
    symbols, capabilities = bilm.lexicon, _find_capabilities(bilm)
    return Contents(
        settings={**_flatten(bilm.config.to_dict()), "output_width": bilm.config.output_width},
        n_parameters=count_parameters(bilm),
        gates=_read_gates(bilm.network),
        vocabulary=None if words is None else {"n_words": len(words), "first": words[:8]},
        lexicon=None if symbols is None else {"n_characters": len(symbols.characters), "n_words": len(symbols.words)},
        meta=dict(bilm.meta or {}),
        problems=[f"{use.name} is not possible: {use.reason}" for use in capabilities[:4] if not use.is_possible],
        architecture=_describe_architecture(bilm),
        capabilities=capabilities,
        origin=origin,
        mixes=[{**asdict(mix), "shares": mix.shares} for mix in mixes_from_meta(bilm.meta, bilm.config.n_layers)],
    )


def read_origin(path: PathLike, options: Optional[Path] = None) -> Origin:
    """The origin of a biLM, see `load_bilm`; with `options`, which are not beside the weights, `path` is the file of
    the weights. All files are read for their checksums.

    RAISES (ValueError): EL020 and other errors if no biLM is detected.
    """
    target = locate_model(split_name(path)[0])
    if options is not None:
        format, model = detect_pair(target, File(options))
        paths = sorted({*model.paths, options})
    else:
        format, model = detect_format(target)
        paths = model.paths
    files = tuple(FileFacts(str(file), file.stat().st_size, hash_file(file)) for file in paths)
    return Origin(str(target), format.name, files, read_record(target))


def _describe_architecture(bilm: BiLM) -> str:
    config, characters = bilm.config, bilm.config.char_cnn
    words = "a table of words" if characters is None else f"a character CNN ({characters.codec})"
    if config.token_embedder is not None:
        words = f"words and characters of ELMoForManyLangs ({config.token_embedder.kind})"
    directions = "forward only" if config.directions == "forward" else "forward and backward"
    layers = f"{config.n_layers} {config.encoder.upper() if config.encoder == 'lstm' else config.encoder} layer(s)"
    return f"biLM of {layers} of width {config.projection_width}, {directions}, over {words}"


def count_parameters(bilm: BiLM) -> Dict[str, int]:
    """Parameters per module and of the biLM (tables without their mask row, as in the papers), and of softmax and token
    embeddings if present.
    """
    counts: Dict[str, int] = {}
    shapes = {key: tuple(tensor.shape) for key, tensor in bilm.network.state_dict().items()}
    for key, n_numbers in count_numbers(shapes).items():
        counts[_module_of(key)] = counts.get(_module_of(key), 0) + n_numbers
    counts["biLM"] = sum(counts.values())
    if bilm.head is not None:
        counts["softmax (not needed for vectors)"] = sum(tensor.numel() for tensor in bilm.head.state_dict().values())
    if bilm.token_embeddings is not None:
        counts["token embeddings"] = bilm.token_embeddings.numel()
    return counts


def _flatten(record: Dict[str, Any], prefix: str = "") -> Dict[str, Any]:
    flat: Dict[str, Any] = {}
    for key, value in record.items():
        flat.update(_flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value})
    return flat


def _module_of(key: str) -> str:
    """Name of the module of an entry of the state dict. Layers start at 1, since layer 0 is the token layer."""
    first, second, third = [*key.split("."), "", ""][:3]
    if first == "encoder" and second in ("layers", "blocks"):
        return f"{'LSTM' if second == 'layers' else 'transformer'} layer {int(third) + 1}"
    if first == "encoder" and second == "norm":
        return "output norm"
    if first == "token_embedder":
        return f"token embedder: {second}"
    if first == "encoder" and second in ("lstm", "projection"):
        return "bidirectional LSTM"
    if first == "encoder":
        return f"highway around LSTM layer {int(third) + 2}"
    return f"characters: {second}" if first == "char_cnn" else "word table"


@torch.no_grad()
def _read_gates(network: BiLMNetwork) -> List[Tuple[str, str, float]]:
    """Mean activation of each gate at input zero, which depends only on the bias."""
    gates: List[Tuple[str, str, float]] = []
    state, config = network.state_dict(), network.config
    for key in (key for key in state if "char_cnn.highways." in key and key.endswith(".bias")):
        gate = state[key].chunk(2)[1]
        gates.append((f"highway {int(key.split('.')[-2]) + 1}", "transform", float(torch.sigmoid(gate).mean())))
    biases = []  # of each LSTM, gates i, f, o
    for layer in range(config.n_layers if config.encoder == "lstm" else 0):
        for row in state[f"encoder.layers.{layer}.bias"]:  # (4H,), columns i, j, f, o
            i, _, f, o = row.chunk(4)
            biases.append((i, f + 1.0, o))  # the forget bias of 1 is not stored in the weights
    for layer in range(config.encoder_depth if config.encoder == "bilstm" else 0):
        for suffix in ("", "_reverse"):
            both = [state[f"encoder.lstm.bias_{side}_l{layer}{suffix}"] for side in ("ih", "hh")]
            i, f, _, o = (both[0] + both[1]).chunk(4)
            biases.append((i, f, o))
    for row, bias in enumerate(biases):
        layer, k = divmod(row, config.n_directions)
        module = f"LSTM layer {layer + 1} {DIRECTIONS[k]}"
        for name, gate in zip(("input", "forget", "output"), bias):
            gates.append((module, name, float(torch.sigmoid(gate).mean())))
    for k in range(config.n_layers - 1 if config.highway_between else 0):
        for direction, row in zip(DIRECTIONS, state[f"encoder.highways.{k}.bias"]):
            activation = float(torch.sigmoid(row).mean())
            gates.append((f"highway around LSTM layer {k + 2} {direction}", "transform", activation))
    return gates


def _find_capabilities(bilm: BiLM) -> List[Capability]:
    """Vectors, perplexity, training, export to each format, each reduced precision."""
    config, embedder = bilm.config, bilm.config.token_embedder
    sizes = f"{config.n_layers + 1} layers of {config.output_width} dimensions"
    sizes += ", forward direction only" if config.directions == "forward" else ""
    reads_characters = config.char_cnn is not None or (embedder is not None and embedder.n_characters > 0)
    from_characters = reads_characters and bilm.token_embeddings is None
    unknown = (
        "from characters"
        if from_characters
        else "words outside the vocabulary share the vector of <UNK> in the token layer"
    )
    lacking = [name for name, value in (("softmax", bilm.head), ("vocabulary", bilm.vocabulary)) if value is None]
    training = Capability("further training", True, "with a new vocabulary and a new softmax" if lacking else "")
    if embedder is not None:
        reason = "ELMoForManyLangs: pretraining has no word input of this kind"
        training = Capability("further training", False, reason)
    elif config.encoder == "bilstm":
        reason = "a plain bidirectional LSTM can be fine-tuned with a task only"
        training = Capability("further training", False, reason)
    capabilities = [
        Capability("contextual vectors", True, sizes),
        Capability("vectors of unknown words", from_characters, unknown),
        Capability("perplexity", not lacking, f"it lacks: {', '.join(lacking)}" if lacking else ""),
        training,
    ]
    has_matrices = bool(quantizable_names(bilm.network))
    for format in FORMATS:
        if format.write is not None:
            reason = "; ".join(format.find_unwritable(bilm))
            dtypes = ", ".join(dtype for dtype in format.dtypes if dtype != INT8 or has_matrices)
            capabilities.append(Capability(f"export to {format.name}", not reason, reason or dtypes))
    for precision in PRECISIONS[1:]:
        reason = "" if has_matrices else "it has no matrices that are computed in reduced precision"
        reason = reason or find_unsupported(precision, bilm.device, config.encoder) or ""
        how = "matrices of the layers above the words"
        capabilities.append(Capability(f"computation in {precision}", not reason, reason or how))
    return capabilities


@dataclass(frozen=True)
class TensorDifference:
    """A tensor of one or both biLMs.

    name (str): Its name in the state dict; "softmax." is the prefix of the softmax, which vectors do not depend on.
    status (str): "same", "different", "permuted" (the same values in another order), "other shape", "only A", "only B".
    max_difference (Optional[float]): Largest absolute difference, for two tensors of one shape.
    """

    name: str
    status: str
    max_difference: Optional[float] = None


@dataclass(frozen=True)
class LayerDifference:
    """The vectors of one layer; layer 0 is the token layer.

    mean_cosine (float): Mean cosine of the vectors of a token.
    sentence (int), position (int), token (str): Place of the largest difference: number of the sentence, from 0, and of
        its token; BOS is 0, and EOS the last.
    """

    layer: int
    max_difference: float
    mean_cosine: float
    sentence: int
    position: int
    token: str


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison: settings that differ, with both values; all tensors; the layers that both biLMs have.

    layers (Tuple[LayerDifference, ...]): Empty if their widths differ.
    n_tokens (int): Tokens compared, without BOS and EOS.
    has_same_shape (bool): Both have the same number of layers and the same width.
    """

    settings: Dict[str, Tuple[Any, Any]]
    tensors: Tuple[TensorDifference, ...]
    layers: Tuple[LayerDifference, ...]
    n_tokens: int
    has_same_shape: bool

    def is_equal(self, tolerance: float = VECTOR_TOLERANCE) -> bool:
        """Whether all layers of all tokens agree. Settings and tensors may differ."""
        return self.has_same_shape and self.first_different(tolerance) is None

    def first_different(self, tolerance: float = VECTOR_TOLERANCE) -> Optional[int]:
        """The lowest layer with a difference above the tolerance, or that is not a number."""
        return next(
            (difference.layer for difference in self.layers if not difference.max_difference <= tolerance), None
        )


def compare_bilms(a: BiLM, b: BiLM, sentences: Sequence[Sequence[str]] = COMPARED_SENTENCES) -> Comparison:
    """Compare the settings, the tensors, and the layers on tokenized sentences, each of which starts from the zero
    state.
    """
    has_same_width = a.config.output_width == b.config.output_width
    return Comparison(
        settings=find_changes(_settings_of(a), _settings_of(b)),
        tensors=tuple(_compare_tensors(_arrays_of(a), _arrays_of(b))),
        layers=tuple(_compare_layers(a, b, sentences)) if has_same_width else (),
        n_tokens=sum(map(len, sentences)),
        has_same_shape=has_same_width and a.config.n_layers == b.config.n_layers,
    )


def _settings_of(bilm: BiLM) -> Dict[str, Any]:
    record = bilm.config.to_dict()
    characters = record.pop("char_cnn") or {}
    words = None if bilm.vocabulary is None else bilm.vocabulary.words
    return {
        **record,
        **{f"char_cnn.{name}": value for name, value in characters.items()},
        "vocabulary": "none" if words is None else f"{len(words):,} words, sha256 {_hash_words(words)}",
        **_lexicon_of(bilm),
        "softmax": "none" if bilm.head is None else type(bilm.head).__name__,
        "token_embeddings": "none" if bilm.token_embeddings is None else str(list(bilm.token_embeddings.shape)),
        "precision": bilm.precision,
    }


def _lexicon_of(bilm: BiLM) -> Dict[str, str]:
    """Symbols of the tables of ELMoForManyLangs; other biLMs have none."""
    lexicon = bilm.lexicon
    tables = {} if lexicon is None else {"characters": lexicon.characters, "words": lexicon.words}
    return {
        f"lexicon.{name}": f"{len(table):,}, sha256 {_hash_words(list(map(repr, table)))}"
        for name, table in tables.items()
    }


def _hash_words(words: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(words).encode("utf8", "surrogatepass")).hexdigest()[:N_DIGITS]


def _arrays_of(bilm: BiLM) -> Dict[str, Array]:
    arrays = to_arrays(bilm.network)
    if bilm.head is not None:
        arrays.update({f"softmax.{name}": array for name, array in to_arrays(bilm.head).items()})
    if bilm.token_embeddings is not None:
        arrays["token_embeddings"] = bilm.token_embeddings.detach().cpu().numpy()
    return arrays


def _compare_tensors(a: Dict[str, Array], b: Dict[str, Array]) -> Iterator[TensorDifference]:
    for name in dict.fromkeys([*a, *b]):
        if name not in b or name not in a:
            yield TensorDifference(name, ONLY_A if name in a else ONLY_B)
            continue
        array_a, array_b = a[name], b[name]
        difference = float(np.abs(array_a - array_b).max(initial=0.0)) if array_a.shape == array_b.shape else None
        status = SAME if difference == 0 else RESHAPED if difference is None else DIFFERENT
        if status != SAME and array_a.size == array_b.size <= MAX_SORTED:
            is_permuted = np.array_equal(np.sort(array_a, axis=None), np.sort(array_b, axis=None))
            status = PERMUTED if is_permuted else status
        yield TensorDifference(name, status, difference)


def _compare_layers(a: BiLM, b: BiLM, sentences: Sequence[Sequence[str]]) -> List[LayerDifference]:
    n_layers = min(a.config.n_layers, b.config.n_layers) + 1
    largest = [(-1.0, 0, 0)] * n_layers  # difference, sentence, position; NaN is infinite
    cosines, n_rows = np.zeros(n_layers), 0
    for start in range(0, len(sentences), BATCH_SENTENCES):
        batch = sentences[start : start + BATCH_SENTENCES]
        pairs = zip(a.embed(batch, boundaries=True), b.embed(batch, boundaries=True))
        for sentence, (first, second) in enumerate(pairs, start=start):
            n_rows += first.shape[1]
            for layer in range(n_layers):
                cosines[layer] += _cosines(first[layer], second[layer]).sum()
                rows = np.nan_to_num(np.abs(first[layer] - second[layer]).max(axis=1), nan=np.inf)  # (n + 2,)
                position = int(rows.argmax())
                if rows[position] > largest[layer][0]:
                    largest[layer] = (float(rows[position]), sentence, position)
    return [
        LayerDifference(
            layer=layer,
            max_difference=difference,
            mean_cosine=float(cosines[layer] / n_rows),
            sentence=sentence,
            position=position,
            token=["<S>", *sentences[sentence], "</S>"][position],
        )
        for layer, (difference, sentence, position) in enumerate(largest)
        if n_rows
    ]


def _cosines(a: Array, b: Array) -> Array:
    """Cosine of each row, 1 for two rows of zeros."""
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    products: Array = (a * b).sum(axis=-1)
    return np.where(norms > 0, products / np.where(norms > 0, norms, 1), (a == b).all(axis=-1))


def hash_weights(bilm: PathLike) -> str:
    """The first 12 hexadecimal digits of the sha256 of the file of weights, as `sha256sum` prints it; of several files,
    of their names and sums. Descriptions and settings are left out. FileNotFoundError without such files.
    """
    path = locate_model(split_name(bilm)[0])
    files = _find_weights(path)
    if not files:
        raise FileNotFoundError(
            f"There are no weights of the biLM '{bilm}' at '{path}'. Give the name of a packaged biLM, or the "
            "path of weights in any known format."
        )
    sums = {file.relative_to(path).as_posix(): hash_file(file) for file in files}
    if len(sums) == 1:
        return next(iter(sums.values()))[:N_DIGITS]
    listed = "\n".join(f"{name} {digest}" for name, digest in sums.items())
    return hashlib.sha256(listed.encode("utf8")).hexdigest()[:N_DIGITS]


def _find_weights(path: Path) -> List[Path]:
    if path.is_file():
        return [path]
    pipeline = detect_pipeline(Listing(path)) if path.is_dir() else None
    if pipeline is not None:  # without what else is in it
        return pipeline.paths
    return [file for file in walk_files(path) if file.suffix not in BESIDE and not file.name.startswith(".")]
