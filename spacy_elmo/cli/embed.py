"""`elmo embed`: contextual vectors for texts."""

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Dict, List, Literal, Optional, Set, Tuple

from spacy.tokens import Doc
from tqdm import tqdm

from ..corpora.places import SKIPPED, find_sources
from ..corpora.sources import Source, import_arrow, is_address
from ..corpora.texts import choose_tokenizer
from ..export.embedder import MAX_BATCH_TEXTS, load_weights, make_vector_pipeline
from ..export.parts import (
    PART_SUFFIXES,
    TEXTS_PER_FILE,
    PartSettings,
    Progress,
    begin_folder,
    check_output,
    check_streams,
    describe_parts,
    embed_parts,
    embed_parts_on_ray,
    embed_whole,
    find_types,
    read_beginnings,
)
from ..export.vector_files import STDOUT, check_choice, choose_format, open_vectors
from ..settings import DType, Precision
from ..weights.load import list_sources
from . import _common
from ._app import Arg, Opt, app

AS_TEXT = ":text"  # after a field of --keep
REPORT_S = 60.0  # seconds between lines of progress without a terminal
MAX_IDS = 2_000_000  # that are compared, about 100 bytes each


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
    (that of --keep id, which may not be unique, as a warning then says; otherwise FILE:LINE), the fields of --keep,
    tokens, and elmo or elmo_layer_0 and so on, each a list of rows; its metadata has the settings as JSON, under
    spacy_elmo. An HDF5 file is that of AllenNLP 0.9: a data set per text, named by its number, and sentence_to_index, a
    JSON object from texts to numbers.

    With --pool there is one vector per text instead of one per token: row i of "mixed" (texts, width) and "layers"
    (layers + 1, texts, width), `doc.user_data["elmo_pooled"]` and `["elmo_pooled_layers"]` of a Doc; Parquet then has
    the text instead of its tokens.

    Texts are streamed, so memory does not grow with their number, except for a DocBin file, which is held in memory as
    a whole. An output folder is for large corpora: its files are written one by one, and the same command again
    computes only those that are missing.
    """
    files = {"options": options, "vocab": vocab, "token_embeddings": token_embeddings}
    is_folder = is_address(output_path) or (output_path != STDOUT and not Path(output_path).suffix)
    format = "parquet" if is_folder and to == "auto" else to
    settings = PartSettings(
        model=bilm_path,
        folder=output_path,
        format=format,
        texts_per_file=docs_per_file or TEXTS_PER_FILE.get(format, 0),
        files=tuple((name, str(path)) for name, path in files.items() if path is not None),
        input_format=input_format,
        lang=lang,
        store=store,
        pool=pool,
        dtype=dtype,
        precision=precision,
        batch_size=batch_size,
        gpu_id=gpu_id,
        keep=_read_keep(keep or ""),
        on_error=on_error,
    )
    with _common.show_errors():
        if output_path == STDOUT:
            _common.check_stdout()
        _common.device_of(gpu_id)
        if is_folder and format not in PART_SUFFIXES:
            raise ValueError(f"A folder cannot be written --to {to}. Choose parquet or docbin, or an output file.")
        if not is_folder and (shard is not None or engine == "ray"):
            raise ValueError(f"--shard and --engine ray write a folder, but the output is '{output_path}'.")
        ray_only = {"--address": address, "--workers": workers, "--gpus-per-worker": gpus_per_worker}
        if engine != "ray" and (needless := next((name for name, value in ray_only.items() if value), None)):
            raise ValueError(f"{needless} is for Ray, and the engine is local. Add --engine ray, or leave it out.")
        if engine == "ray" and shard is not None:
            raise ValueError(f"--shard {shard} is for jobs without Ray, which shares the files itself. Leave one out.")
        kind = format if is_folder else choose_format(output_path, to)
        check_choice(kind, store, not forget_sentences, [name for name, _ in settings.keep])
        if kind == "parquet":
            import_arrow("pyarrow", output_path)
        if not is_folder:
            bilm_files = list_sources(bilm_path, options, vocab, token_embeddings)
            check_output(output_path, input_path, bilm_files, force=force)
        inputs = find_sources(input_path, _common.msg.info, output=output_path)
        if is_folder:
            check_streams(output_path, inputs, force=force)
        settings = find_types(settings, inputs, _common.msg.info)
        job = _read_shard(shard, force=force)
        bilm = load_weights(settings, **dict(settings.files))
        first = read_beginnings(settings, inputs)
        settings = replace(settings, lang=choose_tokenizer(lang, first, [input_path], _common.msg.warn, bilm.meta))
        if is_folder:
            nlp = make_vector_pipeline(settings, bilm)
            description = describe_parts(settings, bilm)
            begin_folder(settings, description, inputs, force=force)
            if engine == "ray":
                total = embed_parts_on_ray(
                    settings, description, inputs, address=address, n_workers=workers, gpus_per_worker=gpus_per_worker
                )
            else:
                with _Progress(inputs) as progress:
                    total = embed_parts(settings, nlp, description, inputs, shard=job, progress=progress.callbacks)
            if total.n_skipped and not (total.n_texts or total.n_found):
                raise ValueError(
                    f"None of the {total.n_skipped:,} texts could be read: they are listed, with the reasons, in files "
                    f"_part-*{SKIPPED} in '{output_path}'. Correct them, and run the same command again."
                )
        else:
            layout: Dict[str, Any] = {
                "has_sentences": not forget_sentences,
                "pool": pool,
                "keep": dict(settings.keep),
            }
            with open_vectors(output_path, to=to, store=store, force=force, **layout) as writer:
                nlp = make_vector_pipeline(replace(settings, store=writer.store), bilm)
                writer.meta = describe_parts(settings, bilm)
                with _Progress(inputs) as progress:
                    total = embed_whole(settings, nlp, inputs, writer, progress=progress.callbacks)
        if total.n_replaced:
            replaced = f"{total.n_replaced:,} unpaired surrogates, which are not valid characters,"
            _common.msg.info(f"{replaced} were replaced by U+FFFD")
    if output_path != STDOUT:
        tokens, texts = _common.counted(total.n_tokens, "token"), _common.counted(total.n_texts, "text")
        existing = f"; {_common.counted(total.n_found, 'file')} existed already" if total.n_found else ""
        _common.msg.good(f"Saved the vectors of {tokens} in {texts}{existing}", output_path)
    if total.n_skipped:
        skipped = _common.counted(total.n_skipped, "text")
        _common.msg.warn(f"{skipped} could not be read. They are listed in .skipped.jsonl files beside the output.")


def _read_keep(keep: str) -> Tuple[Tuple[str, str], ...]:
    """RETURNS (Tuple[Tuple[str, str], ...]): Names of fields, with the type "string" where it is given, else ""."""
    names = [name.strip() for name in keep.split(",") if name.strip()]
    return tuple((name.removesuffix(AS_TEXT), "string" if name.endswith(AS_TEXT) else "") for name in names)


def _read_shard(shard: Optional[str], *, force: bool) -> Tuple[int, int]:
    """RETURNS (Tuple[int, int]): Number of this job, from 0, and number of jobs."""
    job, _, n_jobs = ("1/1" if shard is None else shard).partition("/")
    if not (job.isdecimal() and n_jobs.isdecimal() and 1 <= int(job) <= int(n_jobs)):
        raise ValueError(f"--shard is '{shard}', should be I/N with I from 1 to N, for instance 1/8.")
    if shard is not None and force:
        raise ValueError(
            "--force would remove the files of other jobs (--shard). Empty the folder before the first job."
        )
    return int(job) - 1, int(n_jobs)


class _Progress:
    """A bar with the share of the bytes that have been read, tokens per second and the time that is left; without a
    terminal a line a minute. At the end it warns of repeated ids, among `MAX_IDS`.
    """

    def __init__(self, inputs: List[Source]) -> None:
        self.n_tokens = 0
        self._sizes = {source.name: source.size_bytes for source in inputs}
        self._read = dict.fromkeys(self._sizes, 0)
        self._start = self._reported = time.monotonic()
        self._bar = tqdm(total=sum(self._sizes.values()) or None, disable=None, unit="B", unit_scale=True)
        self.callbacks = Progress(self._on_text, self._on_read, self._on_id)
        self._ids: Set[int] = set()
        self._n_repeated, self._repeated = 0, ""

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *error: Any) -> None:
        self._bar.close()
        if self._n_repeated:
            texts = "1 text has" if self._n_repeated == 1 else f"{self._n_repeated:,} texts have"
            _common.msg.warn(
                f"{texts} an id that an earlier text has, for instance {self._repeated}, so that rows cannot be told "
                "apart by it. Correct the ids, or leave id out of --keep: then the id is FILE:LINE."
            )

    def _on_text(self, doc: Doc) -> None:
        self.n_tokens += len(doc)

    def _on_id(self, id: Any, place: str) -> None:
        key = hash(str(id))
        if key in self._ids:
            self._n_repeated += 1
            self._repeated = self._repeated or f"{id!r} ({place})"
        elif len(self._ids) < MAX_IDS:
            self._ids.add(key)

    def _on_read(self, name: str, position: int) -> None:
        self._bar.update(position - self._read[name])
        self._read[name] = position
        now = time.monotonic()
        speed = self.n_tokens / max(now - self._start, 1e-9)
        self._bar.set_postfix_str(f"{self.n_tokens:,} tok, {speed:,.0f} tok/s", refresh=False)
        if self._bar.disable and now - self._reported >= REPORT_S:
            self._reported = now
            share = sum(self._read.values()) / max(sum(self._sizes.values()), 1)
            left = timedelta(seconds=round((now - self._start) * (1 / share - 1))) if 0 < share <= 1 else "unknown"
            _common.msg.info(f"{share:.1%} read, {self.n_tokens:,} tokens, {speed:,.0f} tok/s, time left: {left}")
