"""`elmo embed`: contextual vectors for texts."""

from enum import Enum
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from spacy.language import Language
from thinc.api import require_gpu
from tqdm import tqdm

from ..corpora.files import Counts, Tell, say_nothing
from ..corpora.texts import Item, PunctuationCheck, make_nlp, read_items, to_doc, warn_of_raw_text
from ..errors import Errors
from ..export.vectors_hdf5 import VECTORS
from ..inference.bilm import BiLM
from ..pipeline import elmo as _elmo  # noqa: F401  registers the factory
from ..pipeline.model import set_bilm
from . import _common
from ._app import Arg, Opt, app
from ._vectors import DOCS_PER_FILE, STDOUT, format_of, open_writer

# Arrays stored for each value of `--store`.
STORED: Dict[str, Tuple[str, ...]] = {"mixed": ("mixed",), "layers": ("layers",), "both": ("mixed", "layers")}

BATCH_SIZE = 1024
BATCH_TOKENS = 16000  # tokens per batch of Docs, a little less than twice the component's `batch_tokens`


class InputFormat(str, Enum):
    """Input formats."""

    auto = "auto"
    text = "text"
    jsonl = "jsonl"
    docbin = "docbin"


class Store(str, Enum):
    """What to store per token."""

    mixed = "mixed"
    layers = "layers"
    both = "both"


class OutputFormat(str, Enum):
    """Output formats."""

    auto = "auto"
    npz = "npz"
    docbin = "docbin"
    hdf5 = "hdf5"


class Pool(str, Enum):
    """Ways to make one vector of those of the tokens."""

    mean = "mean"
    first = "first"
    last = "last"
    max = "max"


class DType(str, Enum):
    """Number types of the stored vectors."""

    float32 = "float32"
    float16 = "float16"


class Precision(str, Enum):
    """Precisions of the computation."""

    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"
    int8 = "int8"


@app.command("embed")
def embed_cli(
    # fmt: off
    bilm_path: str = _common.BILM_ARG,
    input_path: str = Arg(
        ...,
        help="Text (one per line), JSONL ('text' or 'words'), DocBin (each also .gz, .xz, .zst), a folder or a pattern such as 'corpus/**/*.gz' of these, or - for text from stdin.",
    ),
    output_path: str = Arg(
        ...,
        help="A file that ends in .npz (arrays), .hdf5 (a dataset per text) or .spacy (one DocBin), a folder (DocBins of --docs-per-file Docs), or - for .npz to stdout.",
    ),
    to: OutputFormat = Opt(
        OutputFormat.auto, "--to", "-T", help="Format of the output; auto infers it from the suffix."
    ),
    input_format: InputFormat = Opt(
        InputFormat.auto, "--input-format", "-f", help="Format of the input; auto infers it from the suffix."
    ),
    lang: Optional[str] = _common.LANG_OPT,
    is_tokenized: bool = Opt(False, "--tokenized", "-k", hidden=True),  # accepted for compatibility, now the default
    store: Store = Opt(Store.mixed, "--store", "-S", help="Store the mean of the layers, all layers, or both."),
    all_layers: bool = Opt(False, "--all", "-A", help="HDF5 only: store all layers (the default there)."),
    top: bool = Opt(False, "--top", "-U", help="HDF5 only: store the top layer."),
    average: bool = Opt(False, "--average", "-M", help="HDF5 only: store the mean of the layers."),
    forget_sentences: bool = Opt(
        False, "--forget-sentences", "-x", help="HDF5 only: leave out sentence_to_index, the texts with their numbers."
    ),
    pool: Optional[Pool] = Opt(
        None,
        "--pool",
        "-P",
        help="Store one vector per text: the mean, the first, the last or the largest value of its tokens.",
    ),
    dtype: DType = Opt(DType.float32, "--dtype", "-d", help="Number type of the stored vectors."),
    precision: Precision = Opt(
        Precision.float32,
        "--precision",
        "-p",
        help="Precision of the computation: reduced precision is less exact, and faster for large biLMs.",
    ),
    batch_size: int = Opt(
        BATCH_SIZE,
        "--batch-size",
        "-b",
        help="Maximum number of texts per batch. A batch is also limited to about 16,000 tokens. Small batches are slower.",
        min=1,
    ),
    docs_per_file: int = Opt(
        DOCS_PER_FILE, "--docs-per-file", "-n", help="Docs per DocBin file in an output folder.", min=1
    ),
    options: Optional[Path] = _common.OPTIONS_OPT,
    vocab: Optional[Path] = _common.VOCAB_OPT,
    token_embeddings: Optional[Path] = _common.TOKEN_EMBEDDINGS_OPT,
    gpu_id: int = _common.GPU_OPT,
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Compute contextual vectors for texts and save them.

    An .npz has "lengths" (tokens of each text) and the rows of all tokens, one text after the other: "mixed" (tokens,
    width) and/or "layers" (layers + 1, tokens, width), the same shapes as on a Doc. A DocBin has the Docs with their
    vectors: after `spacy_elmo.register_extensions()` they are `doc._.elmo` and `doc._.elmo_layers`. Texts are streamed,
    so memory does not grow with their number. But a DocBin file, as input or output, is held in memory as a whole: use
    an output folder for large corpora. An HDF5 file is that of AllenNLP's command elmo: a dataset per text, named by its
    number, and sentence_to_index. With --pool there is one row per text instead of one per token.
    """
    with _common.show_errors():
        chosen = {"all": all_layers, "top": top, "average": average}
        if is_tokenized and lang is not None:
            raise ValueError(Errors.EL200.format(lang=lang))
        n_docs, n_tokens = embed(
            bilm_path,
            input_path,
            output_path,
            input_format=input_format.value,
            lang=lang,
            to=to.value,
            vectors=[name for name, is_chosen in chosen.items() if is_chosen],
            forget_sentences=forget_sentences,
            store=store.value,
            pool=None if pool is None else pool.value,
            dtype=dtype.value,
            precision=precision.value,
            batch_size=batch_size,
            docs_per_file=docs_per_file,
            gpu_id=gpu_id,
            force=force,
            tell=_common.msg.info,
            warn=_common.msg.warn,
            files={"options": options, "vocab": vocab, "token_embeddings": token_embeddings},
        )
    if output_path != STDOUT:
        tokens, texts = _common.counted(n_tokens, "token"), _common.counted(n_docs, "text")
        _common.msg.good(f"Saved the vectors of {tokens} in {texts}", output_path)


def embed(
    bilm_path: str,
    input_path: str,
    output_path: str,
    *,
    input_format: str = "auto",
    lang: Optional[str] = None,
    to: str = "auto",
    vectors: Sequence[str] = (),
    forget_sentences: bool = False,
    store: str = "mixed",
    pool: Optional[str] = None,
    dtype: str = "float32",
    precision: str = "float32",
    batch_size: int = BATCH_SIZE,
    docs_per_file: int = DOCS_PER_FILE,
    gpu_id: int = -1,
    force: bool = False,
    tell: Tell = say_nothing,
    warn: Tell = say_nothing,
    files: Optional[Dict[str, Any]] = None,
) -> Tuple[int, int]:
    """Stream texts through the ELMo component into a file.

    bilm_path (str): See `load_bilm`.
    input_path (str): See `corpora.texts.read_items`.
    output_path (str): See `_vectors.open_writer`.
    lang (Optional[str]): Tokenizer of raw text; None: tokens are separated by white space.
    to (str): Format of the output, see `_vectors.format_of`.
    vectors (Sequence[str]): For HDF5, at most one of "all" (default), "top" and "average".
    forget_sentences (bool): For HDF5, leave out the texts.
    store (str): For other formats, "mixed", "layers" or "both".
    pool (Optional[str]): One vector per text, see `read_vectors`.
    precision (str): See `BiLM.set_precision`.
    batch_size (int): Maximum number of Docs per batch; a batch has at most about 16,000 tokens or a single Doc.
    tell (Tell): Called with messages on files of a folder that are not read and on replaced characters.
    warn (Tell): Called with a warning if the text looks like raw text.
    files (Optional[Dict[str, Any]]): Options, vocabulary and token embeddings, if not next to the weights.
    RETURNS (Tuple[int, int]): Texts and tokens read.
    """
    n_docs = n_tokens = 0
    is_hdf5 = format_of(output_path, to) == "hdf5"
    _check_vectors(is_hdf5, vectors, forget_sentences, store)
    chosen = vectors[0] if vectors else "all"
    layout: Dict[str, Any] = {
        "to": to,
        "vectors": chosen,
        "has_sentences": not forget_sentences,
        "pool": pool,
        "docs_per_file": docs_per_file,
    }
    with open_writer(output_path, STORED[store], force=force, **layout) as writer:
        # The component computes on Thinc's device; on a GPU Thinc requires CuPy.
        if _common.device_of(gpu_id) != "cpu":
            require_gpu(gpu_id)
        settings = {"store": VECTORS[chosen] if is_hdf5 else store, "dtype": dtype, "model": {"precision": precision}}
        bilm = _common.open_bilm(bilm_path, **(files or {}))
        nlp = _make_pipeline(bilm, lang or "xx", settings)
        writer.begin(nlp(""))
        counts, cutter, check = Counts(), Cutter(batch_size), PunctuationCheck()
        items = read_items(input_path, nlp, counts, format=input_format, is_tokenized=lang is None, tell=tell)
        with tqdm(disable=None, unit="tok", unit_scale=True) as progress:
            for batch in cutter.cut(items):
                before = n_tokens
                # Remove words that only this batch has from the vocabulary afterwards.
                with nlp.memory_zone():
                    docs = [to_doc(item, nlp) for item in batch]
                    given = [dict(doc.user_data) for doc in docs]
                    for doc, user_data in zip(nlp.pipe(docs, batch_size=len(batch)), given):
                        writer.add(doc, user_data)
                        check.add(token.text for token in doc)
                        n_docs, n_tokens = n_docs + 1, n_tokens + len(doc)
                        progress.update(len(doc))
                cutter.learn(batch, n_tokens - before)
    warn_of_raw_text(check, [input_path], lang, warn, bilm.meta)
    if counts.n_undecodable:
        tell(f"{counts.n_undecodable:,} unpaired surrogates, which are not valid characters, were replaced by U+FFFD")
    return n_docs, n_tokens


def _check_vectors(is_hdf5: bool, vectors: Sequence[str], forget_sentences: bool, store: str) -> None:
    """Options of one format must not be lost on another."""
    given = [f"--{name}" for name in (*vectors, *(["forget-sentences"] if forget_sentences else []))]
    if not is_hdf5 and given:
        remedy = "Choose an output that ends in .hdf5, or select vectors with --store"
        raise ValueError(Errors.EL358.format(options=", ".join(given), reason="the output is not HDF5", remedy=remedy))
    if is_hdf5 and store != "mixed":
        remedy = "Select the vectors of an HDF5 file with --all, --top or --average"
        raise ValueError(Errors.EL358.format(options=f"--store {store}", reason="the output is HDF5", remedy=remedy))
    if len(vectors) > 1:
        reason = "an HDF5 file has one array per text"
        raise ValueError(Errors.EL358.format(options=", ".join(given), reason=reason, remedy="Choose one of them"))


class Cutter:
    """Groups texts into batches of about `BATCH_TOKENS` tokens.

    batch_size (int): Maximum number of texts per batch.
    """

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size
        self._characters = 1.0  # per token, white space included, measured on the last batch

    def cut(self, items: Iterable[Item]) -> Iterator[List[Item]]:
        """items (Iterable[Item]): Texts.
        YIELDS (List[Item]): Batches, in order."""
        batch: List[Item] = []
        n_tokens = 0.0
        for item in items:
            length = len(item) / self._characters if isinstance(item, str) else len(item)
            if batch and (len(batch) == self.batch_size or n_tokens + length > BATCH_TOKENS):
                yield batch
                batch, n_tokens = [], 0.0
            batch.append(item)
            n_tokens += length
        if batch:
            yield batch

    def learn(self, batch: Sequence[Item], n_tokens: int) -> None:
        """Update the estimate of characters per token.

        batch (Sequence[Item]): A batch that has been tokenized.
        n_tokens (int): Its number of tokens.
        """
        n_characters = sum(len(item) for item in batch if isinstance(item, str))
        if n_characters:
            self._characters = max(1.0, n_characters / max(1, n_tokens))


def _make_pipeline(bilm: BiLM, lang: str, settings: Dict[str, Any]) -> Language:
    nlp = make_nlp(lang)
    elmo = nlp.add_pipe("elmo", config=settings)
    set_bilm(elmo.model, bilm)  # type: ignore[attr-defined]  # an Elmo component
    return nlp
