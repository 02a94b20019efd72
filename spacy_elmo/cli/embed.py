"""`elmo embed`: contextual vectors for texts."""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Optional, Sequence

from spacy.tokens import Doc
from tqdm import tqdm

from ..corpora.sources import Source
from ..export.corpus import embed_corpus
from ..export.embedder import MAX_BATCH_TEXTS
from ..export.parts import Progress
from ..export.vector_files import STDOUT
from ..settings import DType, Precision
from . import _common
from ._app import Arg, Opt, app

REPORT_S = 60.0  # seconds between lines of progress without a terminal


@app.command("embed")
def embed_cli(
    # fmt: off
    bilm_path: str = _common.BILM_ARG,
    input_path: str = Arg(
        ...,
        help="Text (one per line), JSONL ('text' or 'words') or DocBin, plain or compressed (.gz, .bz2, .xz, .zst), or Parquet: a file, a folder, a pipe, a pattern such as 'corpus/**/*.gz', an address such as s3://BUCKET/FOLDER, or - for stdin.",
    ),
    output_path: str = Arg(
        ...,
        help="A file that ends in .npz (arrays), .hdf5 (a dataset per text), .parquet or .spacy (one DocBin), a folder or its address (Parquet files of --docs-per-file texts; DocBins with --to docbin), or - for .npz to stdout.",
    ),
    to: Literal["auto", "npz", "docbin", "parquet", "hdf5"] = Opt(
        "auto", "--to", "-T", help="Format of the output; auto infers it from the suffix."
    ),
    input_format: _common.CorpusFormat = Opt(
        "auto",
        "--input-format",
        "-f",
        help="Format of the input; auto infers it from the first bytes, then the suffix.",
    ),
    lang: Optional[str] = _common.CORPUS_LANG_OPT,
    store: Literal["mixed", "layers", "both", "top"] = Opt(
        "mixed",
        "--store",
        "-S",
        help="Store the mean of the layers, all layers, or both (not in HDF5); top, in HDF5 only: the top layer.",
    ),
    forget_sentences: bool = Opt(
        False, "--forget-sentences", "-x", help="HDF5 only: leave out sentence_to_index, the texts with their numbers."
    ),
    pool: Optional[Literal["mean", "first", "last", "max"]] = Opt(
        None,
        "--pool",
        "-P",
        help="Store one vector per text: the mean, the first, the last or the largest value of its tokens.",
    ),
    dtype: DType = Opt("float32", "--dtype", "-d", help="Number type of the stored vectors."),
    precision: Precision = Opt(
        "float32",
        "--precision",
        "-p",
        help="Precision of the computation: reduced precision is less exact and faster.",
    ),
    batch_size: int = Opt(
        MAX_BATCH_TEXTS,
        "--batch-size",
        "-b",
        help="Maximum number of texts per batch. A batch is also limited to about 16,000 tokens. Small batches are slower.",
        min=1,
    ),
    docs_per_file: Optional[int] = Opt(
        None,
        "--docs-per-file",
        "-n",
        help="Texts per file in an output folder. Defaults to 10,000 for Parquet, 1000 for DocBins.",
        min=1,
    ),
    keep: Optional[str] = Opt(
        None,
        "--keep",
        help="Fields of JSONL or columns of Parquet that the output keeps, separated by commas: id,date. Numbers stay numbers; date:text keeps them as text.",
    ),
    on_error: Literal["stop", "skip"] = Opt(
        "stop", "--on-error", help="At a text that cannot be read: stop, or skip it and list it beside the output."
    ),
    shard: Optional[str] = Opt(
        None, "--shard", help="I/N: write the I-th of N shares of an output folder, for N parallel jobs."
    ),
    engine: Literal["local", "ray"] = Opt(
        "local", "--engine", help="Compute an output folder in this process, or on a Ray cluster."
    ),
    address: Optional[str] = Opt(None, "--address", help="Ray only: address of a running cluster, or auto."),
    workers: Optional[int] = Opt(None, "--workers", help="Ray only: number of workers, by default one per CPU.", min=1),
    gpus_per_worker: float = Opt(
        0.0, "--gpus-per-worker", help="Ray only: GPUs, or share of a GPU, per worker.", min=0.0
    ),
    options: Optional[Path] = _common.OPTIONS_OPT,
    vocab: Optional[Path] = _common.VOCAB_OPT,
    token_embeddings: Optional[Path] = _common.TOKEN_EMBEDDINGS_OPT,
    gpu_id: int = _common.GPU_OPT,
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Compute contextual vectors for texts and save them.

    Each line, even an empty one, is one text and one sequence of the biLM; for several sentences per text give a DocBin
    with sentence boundaries.

    An .npz has "lengths" (tokens of each text), "ids", "tokens" (at most 200 characters), and the rows of all tokens,
    text by text: "mixed" (tokens, width), "layers" (layers + 1, tokens, width). A DocBin has Docs with vectors: after
    `spacy_elmo.register_extensions()` they are `doc._.elmo` and `doc._.elmo_layers`. Parquet has a row per text: id
    (by --keep id, which may not be unique, as a warning then says; otherwise FILE:LINE), the fields of --keep,
    tokens, and elmo or elmo_layer_0 and so on, each a list of rows; its metadata has the settings as JSON, under
    spacy_elmo. An HDF5 file is as AllenNLP 0.9 writes it: a data set per text, named by its number, and sentence_to_index, a
    JSON object from texts to numbers.

    With --pool there is one vector per text instead of one per token: row i of "mixed" (texts, width) and "layers"
    (layers + 1, texts, width), `doc.user_data["elmo_pooled"]` and `["elmo_pooled_layers"]` of a Doc; Parquet then has
    the text instead of its tokens.

    Texts are streamed, so memory does not grow with their number, except for a DocBin file, which is held in memory as
    a whole. An output folder is for large corpora: its files are written one by one, and the same command again
    computes only those that are missing.
    """
    with _common.show_errors():
        if output_path == STDOUT:
            _common.check_stdout()
        _common.device_of(gpu_id)
        with _Bar() as bar:
            total = embed_corpus(
                bilm_path,
                input_path,
                output_path,
                to=to,
                input_format=input_format,
                lang=lang,
                store=store,
                forget_sentences=forget_sentences,
                pool=pool,
                dtype=dtype,
                precision=precision,
                batch_size=batch_size,
                docs_per_file=docs_per_file,
                keep=[name.strip() for name in (keep or "").split(",") if name.strip()],
                on_error=on_error,
                shard=shard,
                engine=engine,
                address=address,
                workers=workers,
                gpus_per_worker=gpus_per_worker,
                options=options,
                vocab=vocab,
                token_embeddings=token_embeddings,
                gpu_id=gpu_id,
                force=force,
                progress=Progress(bar.start, bar.count, bar.move),
                on_message=_common.msg.info,
                warn=bar.warn,
            )
        if total.n_replaced:
            replaced = f"{total.n_replaced:,} unpaired surrogates, which are not valid characters,"
            _common.msg.info(f"{replaced} were replaced by U+FFFD")
    if output_path != STDOUT:
        tokens, texts = _common.counted(total.n_tokens, "token"), _common.counted(total.n_texts, "text")
        existing = f"; {_common.counted(total.n_existing, 'file')} existed already" if total.n_existing else ""
        _common.msg.good(f"Saved the vectors of {tokens} in {texts}{existing}", output_path)
    if total.n_skipped:
        skipped = _common.counted(total.n_skipped, "text")
        _common.msg.warn(f"{skipped} could not be read. They are listed in .skipped.jsonl files beside the output.")


class _Bar:
    """A bar with the share of the bytes that have been read, tokens per second and the time that is left; without a
    terminal a line a minute.
    """

    def __init__(self) -> None:
        self._bar: Any = None

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *error: Any) -> None:
        if self._bar is not None:
            self._bar.close()

    def warn(self, text: str) -> None:
        """Print a warning, after the bar if there is one."""
        self.__exit__()
        _common.msg.warn(text)

    def start(self, sources: Sequence[Source]) -> None:
        """Create the bar."""
        self._n_tokens, self._sizes = 0, {source.name: source.size_bytes for source in sources}
        self._read = dict.fromkeys(self._sizes, 0)
        self._start = self._reported = time.monotonic()
        self._bar = tqdm(total=sum(self._sizes.values()) or None, disable=None, unit="B", unit_scale=True)

    def count(self, doc: Doc) -> None:
        """Count the tokens of a Doc."""
        self._n_tokens += len(doc)

    def move(self, name: str, position: int) -> None:
        """Show how much of a source has been read."""
        self._bar.update(position - self._read[name])
        self._read[name] = position
        now = time.monotonic()
        speed = self._n_tokens / max(now - self._start, 1e-9)
        self._bar.set_postfix_str(f"{self._n_tokens:,} tok, {speed:,.0f} tok/s", refresh=False)
        if self._bar.disable and now - self._reported >= REPORT_S:
            self._reported = now
            share = sum(self._read.values()) / max(sum(self._sizes.values()), 1)
            left = timedelta(seconds=round((now - self._start) * (1 / share - 1))) if 0 < share <= 1 else "unknown"
            _common.msg.info(f"{share:.1%} read, {self._n_tokens:,} tokens, {speed:,.0f} tok/s, time left: {left}")
