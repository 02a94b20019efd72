"""The ELMo model: maps Docs to the layers of the biLM; its settings, the sequences it reads, the loaders of weights.

The model is created without weights; they come from a loader at `initialize`, from bytes, or from the packaged biLM.
Docs are split into token sequences that the biLM reads, and rows of the sequences are mapped back to Doc order.
"""

import dataclasses
import hashlib
from functools import partial
from itertools import accumulate, compress
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, cast

import numpy
import torch
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass
from spacy.attrs import IS_SPACE, ORTH, SENT_START
from spacy.strings import StringStore
from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats3d
from thinc.util import get_array_module, torch2xp, xp2torch
from torch import enable_grad

from ..bilm.config import BiLMConfig
from ..bilm.layers import find_hooked
from ..bilm.network import BiLMNetwork
from ..inference.bilm import BiLM
from ..inference.encoder import require_state
from ..inference.runtime import isolated
from ..settings import (
    KNOWN_NAMES,
    Contexts,
    Count,
    DType,
    Flag,
    NotNegative,
    Precision,
    StatePolicy,
    WholeNumber,
    read_block,
    require,
    takes,
)
from ..weights import load_bilm
from ..weights.load import resolve
from .fine_tuning import FineTuning
from .mix import ElmoBatch
from .replaced_listener import replace_listener, replace_listener_cfg
from .torch_bilm import Key, LayerCache, TorchBiLM


@dataclass(frozen=True, config=KNOWN_NAMES)
class SequenceSettings:
    """How Docs are cut into the sequences that the biLM reads.

    contexts (str): Input sequences of the biLM: "sentences", "doc", or "auto" (sentences if boundaries are set on the
        Doc, otherwise the whole Doc).
    state (str): Recurrent state at the start of a sequence: "reset" (zeros), "steady" (the state after many empty
        sentences) or "carry" (the state at the end of the previous sequence of the Doc, as in bilm-tf).
    max_tokens (int): Longer sequences are split into windows of this many tokens.
    overlap (int): Tokens that neighbouring windows share; each token is taken from the window where it is most central.
    """

    contexts: Contexts = "auto"
    state: StatePolicy = "reset"
    max_tokens: Count = 512
    overlap: WholeNumber = 64

    def __post_init__(self) -> None:
        is_fine = 2 * self.overlap < self.max_tokens
        require((is_fine, f"overlap is {self.overlap}, should be below half of max_tokens ({self.max_tokens})"))


@dataclass(frozen=True, config=KNOWN_NAMES)
class ElmoSettings(SequenceSettings):
    """The settings of an ELMo model. They are stored in the config, not with the weights.

    bilm (Optional[Dict[str, Any]]): Sizes that the weights must have (the keys of `BiLMConfig`); null accepts any.
    frozen (bool): Whether the biLM is frozen; false trains it with the components that listen.
    precision (str): Precision of a frozen biLM: "float32", "bfloat16", "int8" (CPUs) or "float16" (GPUs). Reduced
        precision needs less memory and changes the vectors slightly; bfloat16 is faster.
    batch_tokens (int): Tokens computed at once; affects the working memory, not the result.
    word_cache_mb (float): Maximum size of the cache of word vectors in megabytes; 0 for no cache.
    layer_cache_mb (float): Maximum size in megabytes of a temporary file with the layers of training Docs, which later
        epochs read if the biLM is frozen; 0 for none.
    layer_cache_dtype (str): Precision of that file, "float32" or "float16".
    fine_tuning (Optional[FineTuning]): With `frozen` false, how the biLM is trained: which layers, when, at which
        rates, see `spacy-elmo.FineTuning.v1`; null trains all layers like the rest of the network.
    """

    bilm: Optional[Dict[str, Any]] = None
    frozen: Flag = True
    precision: Precision = "float32"
    batch_tokens: Count = 8192
    word_cache_mb: NotNegative = 64.0
    layer_cache_mb: NotNegative = 1024.0
    layer_cache_dtype: DType = "float32"
    fine_tuning: Optional[FineTuning] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bilm is not None:
            BiLMConfig.from_dict(self.bilm)  # validates the sizes before weights are loaded
        condition, is_state = "while the biLM is trained (frozen = false)", self.frozen or self.state == "reset"
        require(
            (is_state, f"state is '{self.state}', should be 'reset' {condition}"),
            (
                self.frozen or self.precision == "float32",
                f"precision is '{self.precision}', should be 'float32' {condition}",
            ),
            (
                not self.frozen or self.fine_tuning is None,
                "fine_tuning sets how the biLM is trained, but frozen is true, should be false; or fine_tuning null",
            ),
        )


PACKAGED_BILM = "en_elmo_sm"
MODEL_NAME = "elmo_model"
Backprop = Callable[[Floats3d], List[Doc]]


@takes(ElmoSettings)
def ElmoModel(**settings: Any) -> Model[List[Doc], ElmoBatch]:
    """The model that computes layers. Its weights come from a loader in [initialize], or from the packaged biLM.

    How Docs are cut into sequences, see `SequenceSettings`.
    Other settings, see `ElmoSettings`.
    RETURNS (Model[List[Doc], ElmoBatch]): The model.
    RAISES (ValueError): For invalid settings, also in `bilm`.
    """
    checked = read_block(ElmoSettings, settings, "ElmoModel block")
    cache = LayerCache(checked.layer_cache_mb, checked.layer_cache_dtype)
    trained = None if checked.frozen else checked.fine_tuning or FineTuning()
    return Model(
        MODEL_NAME,
        forward,
        init=init,
        dims={"nO": None, "nL": None},
        shims=[TorchBiLM(checked.word_cache_mb, cache, checked.precision, trained)],
        # Thinc saves attributes that msgpack can encode, and saved attributes override the config when a pipeline is
        # loaded. A dataclass is not saved, so that `spacy.load(path, config={...})` can change a setting.
        attrs={
            "settings": checked,
            "replace_listener": replace_listener,
            "replace_listener_cfg": replace_listener_cfg,
        },
    )


def init(model: Model[List[Doc], ElmoBatch], X: Optional[List[Doc]] = None, Y: Any = None) -> None:
    """Load the packaged biLM if the model has no weights. Fine-tuning begins at its first step."""
    ensure_bilm(model)
    get_shim(model).begin_training()


def get_settings(model: Model[List[Doc], ElmoBatch]) -> ElmoSettings:
    """RETURNS (ElmoSettings): The settings of an ELMo model."""
    settings: ElmoSettings = model.attrs["settings"]
    return settings


def get_shim(model: Model[List[Doc], ElmoBatch]) -> TorchBiLM:
    """RETURNS (TorchBiLM): What holds, trains and labels the biLM of an ELMo model."""
    return cast(TorchBiLM, model.shims[0])


def get_bilm(model: Model[List[Doc], ElmoBatch]) -> Optional[BiLM]:
    """RETURNS (Optional[BiLM]): The biLM of an ELMo model, None if it has no weights."""
    return get_shim(model).bilm


def set_bilm(model: Model[List[Doc], ElmoBatch], bilm: Any) -> None:
    """Set the weights of a model.

    RAISES (ValueError): For anything but a biLM, for other sizes than the `bilm` setting of the model, EL015 if the
        device does not support its `precision`, EL340 if the model carries a state that the encoder does not have.
    """
    if not isinstance(bilm, BiLM):
        raise ValueError(
            f"The loader returned a {type(bilm).__name__}, but should return a BiLM. Use "
            "`spacy-elmo.BiLMLoader.v1`, or a function that also returns a BiLM."
        )
    block, sizes = get_settings(model).bilm, bilm.config.to_dict()
    expected = {} if block is None else type(bilm.config).from_dict(block).to_dict()
    problems = [f"{key} is {sizes.get(key)}, not {value}" for key, value in expected.items() if sizes.get(key) != value]
    if problems:
        raise ValueError(
            f"The sizes of the biLM '{bilm.meta.get('name', '')}' differ from those in the model's `bilm` block: "
            f"{'; '.join(problems)}. Specify other weights: `weights` in the config of the component, "
            "`elmo.load_weights(path)`, or [initialize.components.elmo.loader] with @misc = "
            '"spacy-elmo.BiLMLoader.v1"; or set bilm = null to take the sizes from the weights.'
        )
    if get_settings(model).state == "carry":
        require_state(bilm.config, 'state = "carry"')
    get_shim(model).set_bilm(bilm)
    model.set_dim("nO", bilm.config.output_width, force=True)
    model.set_dim("nL", bilm.config.n_layers + 1, force=True)


def ensure_bilm(model: Model[List[Doc], ElmoBatch]) -> BiLM:
    """The biLM of a model; the packaged one is loaded if the model has no weights.

    RAISES (ValueError): If the sizes of the packaged biLM do not match the `bilm` setting of the model.
    """
    bilm = get_bilm(model)
    if bilm is None:
        bilm = load_bilm(PACKAGED_BILM)
        set_bilm(model, bilm)
    return bilm


def forward(model: Model[List[Doc], ElmoBatch], docs: List[Doc], is_train: bool) -> Tuple[ElmoBatch, Backprop]:
    """Layers of all tokens; in training, the backward pass includes the biLM if that is trained."""
    bilm, settings, shim = ensure_bilm(model), get_settings(model), get_shim(model)
    doc_sequences = read_docs(docs, settings)
    if is_train and shim.is_trained:
        return _forward_with_grad(model, bilm, doc_sequences)
    bounds = _row_bounds(doc_sequences.lengths)
    layers = model.ops.alloc3f(model.get_dim("nL"), bounds[-1], model.get_dim("nO"))
    doc_layers = [layers[:, start:end] for start, end in zip(bounds, bounds[1:])]
    is_cached = is_train and shim.layer_cache.max_mb > 0 and not find_hooked(bilm.network.modules())
    keys, missing = [], list(range(len(docs)))
    if is_cached:
        shim.layer_cache.clear_if_changed(bilm.version)
        keys = _keys_of(doc_sequences, settings.state)
        missing = shim.layer_cache.fill(keys, doc_layers)
    if missing:
        for i, rows, rows_layers in iter_doc_layers(model, bilm, doc_sequences.select(missing)):
            doc_layers[i][:, get_array_module(layers).asarray(rows)] = rows_layers
    if is_cached:
        shim.layer_cache.store(missing, keys, doc_layers)
    return ElmoBatch(layers, doc_sequences.lengths), _no_backprop


def iter_doc_layers(
    model: Model[List[Doc], ElmoBatch], bilm: BiLM, doc_sequences: "DocSequences"
) -> Iterator[Tuple[int, "TokenRows", Floats3d]]:
    """Compute the layers in slices of about `batch_tokens` tokens, in bounded working memory.

    YIELDS (Tuple[int, TokenRows, Floats3d]): The number of a Doc, some of its tokens (ascending, no space tokens) and
        their layers, shape (L+1, n, D), which are valid only until the next ones.
    """
    settings, bounds = get_settings(model), numpy.asarray(_row_bounds(doc_sequences.lengths))
    for start, stop, tensor in bilm.iter_encode(
        doc_sequences.sequences,
        state=settings.state,
        batch_tokens=settings.batch_tokens,
        group_lengths=doc_sequences.sequences_per_doc,
        reuse_memory=True,
    ):
        layers = torch2xp(tensor, ops=model.ops)  # (L+1, N, D)
        positions, rows = doc_sequences.gather(start, stop)
        first = int(bounds.searchsorted(rows[0], side="right")) - 1
        last = int(bounds.searchsorted(rows[-1], side="right"))
        edges = rows.searchsorted(bounds[first : last + 1]).tolist()
        for i, a, b in zip(range(first, last), edges, edges[1:]):
            if a < b:
                is_whole = len(positions) == layers.shape[1]
                places = slice(a, b) if is_whole else get_array_module(layers).asarray(positions[a:b])
                yield i, rows[a:b] - bounds[i], layers[:, places]


@isolated
def _forward_with_grad(
    model: Model[List[Doc], ElmoBatch], bilm: BiLM, doc_sequences: "DocSequences"
) -> Tuple[ElmoBatch, Backprop]:
    ops = model.ops
    get_shim(model).layer_cache.clear_if_changed(None)  # frees what was kept before the first layer was unfrozen
    layers = ops.alloc3f(model.get_dim("nL"), sum(doc_sequences.lengths), model.get_dim("nO"))
    if not doc_sequences.sequences:
        return ElmoBatch(layers, doc_sequences.lengths), _no_backprop
    positions, rows = doc_sequences.gather(0, len(doc_sequences.sequences))
    with enable_grad():
        places = xp2torch(positions, device=bilm.device)
        tensor = bilm.encode(doc_sequences.sequences, with_grad=True)[:, places]  # (L+1, N, D)
    token_rows = ops.xp.asarray(rows)
    layers[:, token_rows] = torch2xp(tensor, ops=ops)

    @isolated
    def backprop(d_layers: Floats3d) -> List[Doc]:
        tensor.backward(xp2torch(ops.xp.ascontiguousarray(d_layers[:, token_rows]), device=tensor.device))
        return []

    return ElmoBatch(layers, doc_sequences.lengths), backprop


def _no_backprop(d_layers: Floats3d) -> List[Doc]:
    return []


def _row_bounds(lengths: Sequence[int]) -> List[int]:
    """RETURNS (List[int]): The first row of each Doc, and the total number of rows."""
    return [0, *accumulate(lengths)]


# Sequences of Docs

KEY_BYTES = 16
TokenRows = NDArray[numpy.int64]


@dataclasses.dataclass(frozen=True)
class DocSequences:
    """The sequences that the biLM reads for a batch of Docs.

    sequences (List[List[str]]): Words of each sequence, without space tokens, with overlaps.
    central (List[Tuple[int, int]]): First and end position in each sequence whose vectors are used; others are context.
    rows (List[TokenRows]): For each sequence, the rows of the central positions, ascending, among the tokens of all
        Docs.
    sequences_per_doc (List[int]): Number of sequences of each Doc.
    lengths (List[int]): Tokens of each Doc.
    """

    sequences: List[List[str]]
    central: List[Tuple[int, int]]
    rows: List[TokenRows]
    sequences_per_doc: List[int]
    lengths: List[int]

    def select(self, docs: Sequence[int]) -> "DocSequences":
        """RETURNS (DocSequences): The same without the sequences of other Docs than these."""
        is_selected = numpy.zeros(len(self.lengths), dtype=bool)
        is_selected[list(docs)] = True
        selected = numpy.repeat(is_selected, self.sequences_per_doc).tolist()
        return DocSequences(
            list(compress(self.sequences, selected)),
            list(compress(self.central, selected)),
            list(compress(self.rows, selected)),
            numpy.where(is_selected, self.sequences_per_doc, 0).tolist(),
            self.lengths,
        )

    def gather(self, start: int, end: int) -> Tuple[TokenRows, TokenRows]:
        """For a slice of the sequences: central positions in their concatenation, and the rows of these."""
        sizes = numpy.array([len(sequence) for sequence in self.sequences[start:end]], dtype="int64")
        first, last = numpy.array(self.central[start:end], dtype="int64").reshape(-1, 2).T
        counts = last - first
        shifts = (sizes.cumsum() - sizes) + first - (counts.cumsum() - counts)
        positions = numpy.repeat(shifts, counts) + numpy.arange(counts.sum())
        return positions, numpy.concatenate([positions[:0], *self.rows[start:end]])


def read_docs(docs: Sequence[Doc], settings: SequenceSettings) -> DocSequences:
    """Split Docs of any length into sequences, in Doc order; a Doc without words has no sequence.

    RAISES (ValueError): For sentence contexts without sentence boundaries.
    """
    doc_sequences = DocSequences([], [], [], [], [len(doc) for doc in docs])
    texts = _Texts()
    first_row = 0
    for doc in docs:
        n_before = len(doc_sequences.sequences)
        for words, places in _iter_contexts(doc, settings.contexts, texts):
            rows = first_row + places
            for window in _cut_windows(len(words), settings):
                doc_sequences.sequences.append(words[window.start : window.end])
                doc_sequences.central.append((window.central_start - window.start, window.central_end - window.start))
                doc_sequences.rows.append(rows[window.central_start : window.central_end])
        doc_sequences.sequences_per_doc.append(len(doc_sequences.sequences) - n_before)
        first_row += len(doc)
    return doc_sequences


def _keys_of(doc_sequences: DocSequences, state: str) -> List[Key]:
    """Hash everything that the layers of each Doc depend on, except the weights: one key per Doc."""
    keys, first_sequence, first_row = [], 0, 0
    for n_sequences, n_rows in zip(doc_sequences.sequences_per_doc, doc_sequences.lengths):
        digest = hashlib.blake2b(f"{state} {n_rows}".encode(), digest_size=KEY_BYTES)
        for i in range(first_sequence, first_sequence + n_sequences):
            digest.update(_encode_words(doc_sequences.sequences[i]))
            digest.update(numpy.asarray(doc_sequences.central[i], dtype="int64").tobytes())
            digest.update((doc_sequences.rows[i] - first_row).tobytes())
        keys.append(digest.digest())
        first_sequence += n_sequences
        first_row += n_rows
    return keys


def _encode_words(words: Sequence[str]) -> bytes:
    """Encode words with their lengths, so that different lists have different bytes."""
    encoded = [word.encode("utf8", "surrogatepass") for word in words]
    return b"".join([numpy.asarray([len(encoded), *map(len, encoded)], dtype="int64").tobytes(), *encoded])


class _Texts(Dict[int, str]):
    """Cache of the text of each hash: one string per distinct word, whatever the length of the Docs."""

    strings: StringStore

    def __missing__(self, orth: int) -> str:
        text = self[orth] = self.strings[orth]
        return text


class Window(NamedTuple):
    """A part of a sequence that the biLM reads by itself: tokens from `start` to before `end`. Vectors of the central
    tokens, from `central_start` to before `central_end`, are taken from this window.
    """

    start: int
    end: int
    central_start: int
    central_end: int


def split_windows(n_tokens: int, max_tokens: int, overlap: int) -> List[Window]:
    """Split a sequence into windows of at most `max_tokens` tokens that overlap by at least `overlap` tokens.

    Each token is kept from the window in which it is furthest from an edge: the kept tokens cover the sequence exactly
    once. The last window starts earlier, so that it is as long as the other windows. An empty sequence has none.
    """
    if n_tokens <= max_tokens:
        return [Window(0, n_tokens, 0, n_tokens)] if n_tokens else []
    last_start = n_tokens - max_tokens
    starts = [*range(0, last_start, max_tokens - overlap), last_start]
    ends = [min(start + max_tokens, n_tokens) for start in starts]
    cuts = [0, *((start + end) // 2 for start, end in zip(starts[1:], ends)), n_tokens]
    return [Window(*edges) for edges in zip(starts, ends, cuts, cuts[1:])]


def _cut_windows(n_tokens: int, settings: SequenceSettings) -> List[Window]:
    """RETURNS (List[Window]): Overlapping windows; without overlap if the state is carried from one to the next."""
    if settings.state != "carry":
        return split_windows(n_tokens, settings.max_tokens, settings.overlap)
    starts = range(0, n_tokens, settings.max_tokens)
    edges = [(start, min(start + settings.max_tokens, n_tokens)) for start in starts]
    return [Window(start, end, start, end) for start, end in edges]


def _iter_contexts(doc: Doc, contexts: str, texts: _Texts) -> Iterator[Tuple[List[str], TokenRows]]:
    """YIELDS (Tuple[List[str], TokenRows]): The words of a sequence, possibly none, and their positions in the Doc."""
    if len(doc) == 0:
        return
    texts.strings = doc.vocab.strings
    places = numpy.flatnonzero(doc.to_array(IS_SPACE) == 0)
    orths = doc.to_array(ORTH)[places]
    edges = numpy.searchsorted(places, _context_starts(doc, contexts)).tolist()
    for start, end in zip(edges, [*edges[1:], len(places)]):
        yield [texts[orth] for orth in orths[start:end].tolist()], places[start:end]


def _context_starts(doc: Doc, contexts: str) -> List[int]:
    """RETURNS (List[int]): The first token of each sequence; the first sequence starts at 0."""
    if contexts == "doc":
        return [0]
    if not doc.has_annotation("SENT_START"):
        if contexts == "sentences":
            raise ValueError(
                f"contexts is 'sentences', but a Doc has no sentence boundaries: '{doc.text[:40]}'. Add a "
                "component that sets them ('sentencizer', 'senter' or 'parser') before this one, or set "
                'contexts = "auto".'
            )
        return [0]
    if "sents" in doc.user_hooks:
        return sorted({0, *(sent.start for sent in doc.sents)})
    starts = doc.to_array(SENT_START)  # 1 begins a sentence; the first token may lack it
    starts[0] = 1
    firsts: List[int] = numpy.flatnonzero(starts == 1).tolist()
    return firsts


# Loaders of weights

Loader = Callable[[], BiLM]


def BiLMLoader(
    path: Optional[str] = "en_elmo_sm",
    options: Optional[str] = None,
    weights: Optional[str] = None,
    vocab: Optional[str] = None,
    token_embeddings: Optional[str] = None,
) -> Loader:
    """Loads the biLM when training starts; a trained pipeline contains its own copy.

    Relative paths start in the working directory of this call.

    path (Optional[str]): Name or path of the biLM in any known format; null if `weights` is given.
    options (Optional[str]): Options file, if it is not in the folder of the weights.
    weights (Optional[str]): Weights file, instead of `path`.
    vocab (Optional[str]): Vocabulary file, one word per line; needed only by biLMs with word input.
    token_embeddings (Optional[str]): HDF5 file with precomputed token vectors, in the order of `vocab`.
    RETURNS (Callable[[], BiLM]): The loader; it opens the files when it is called. RAISES (ValueError): When it is
        called, if neither `path` nor `weights` is given; others as `load_bilm`.
    """
    paths = {"options": options, "weights": weights, "vocab": vocab, "token_embeddings": token_embeddings}
    files = {name: None if file is None else resolve(file) for name, file in paths.items()}
    return partial(_load_given, None if path is None or weights is not None else resolve(path), **files)


def _load_given(path: Optional[str], **files: Any) -> BiLM:
    """RAISES (ValueError): Without a path, or with an empty one, and without weights; others as `load_bilm`."""
    if not (path or "").strip() and files["weights"] is None:
        raise ValueError(
            "No biLM is given: the path in [initialize.components.elmo.loader] is null or empty. Set it, or "
            "paths.bilm, to the name of a packaged model or the path of weights in any known format."
        )
    return load_bilm(path, **files)


def RandomBiLM(bilm: Dict[str, Any], seed: int = 0) -> Loader:
    """Create a biLM with random weights, for tests and timing. Its vectors are meaningless.

    bilm (Dict[str, Any]): Its sizes, the keys of `BiLMConfig`.
    seed (int): Seed of the weights.
    RETURNS (Callable[[], BiLM]): The loader; it creates the biLM when it is called.
    """
    return partial(make_random_bilm, bilm, seed)


@isolated
def make_random_bilm(bilm: Dict[str, Any], seed: int) -> BiLM:
    """A biLM of the sizes in `bilm` with random weights; the global generator of PyTorch does not change."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BiLM(BiLMNetwork(BiLMConfig.from_dict(bilm)).eval(), meta={"random_seed": seed})
