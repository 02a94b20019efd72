"""`embed_corpus`: the vectors of a corpus in a file or a folder, as `elmo embed` writes them."""

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Iterator, Literal, Mapping, Optional, Sequence, Tuple, Union

from ..corpora.places import SKIPPED, OnMessage, find_sources, ignore_message
from ..corpora.sources import Source, import_arrow, is_address
from ..corpora.texts import choose_tokenizer
from ..files import to_path
from ..settings import Count, DType, Precision, Whole, check_arguments
from ..util import has_ray, require_package
from ..weights.load import list_sources
from .embedder import MAX_BATCH_TEXTS, Pool, load_weights, make_vector_pipeline
from .parts import (
    TEXTS_PER_FILE,
    IdCheck,
    PartEmbedder,
    PartSettings,
    Progress,
    Totals,
    begin_folder,
    check_output,
    describe_parts,
    embed_parts_on_ray,
    embed_whole,
    find_types,
    has_parts,
    read_beginnings,
)
from .vector_files import NO_ARROW, check_choice, choose_format, is_output_folder, open_vectors

AS_TEXT = ":text"  # after a field of `keep`
FilePath = Union[str, Path]


@check_arguments
def embed_corpus(
    model: FilePath,
    texts: FilePath,
    output: FilePath,
    *,
    to: Literal["auto", "npz", "docbin", "parquet", "hdf5"] = "auto",
    input_format: Literal["auto", "text", "jsonl", "docbin", "parquet"] = "auto",
    lang: Optional[str] = None,
    store: Literal["mixed", "layers", "both", "top"] = "mixed",
    forget_sentences: bool = False,
    pool: Optional[Pool] = None,
    dtype: DType = "float32",
    precision: Precision = "float32",
    batch_size: Count = MAX_BATCH_TEXTS,
    docs_per_file: Optional[Count] = None,
    keep: Sequence[str] = (),
    on_error: Literal["stop", "skip"] = "stop",
    shard: Optional[str] = None,
    engine: Literal["local", "ray"] = "local",
    address: Optional[str] = None,
    workers: Optional[Count] = None,
    gpus_per_worker: float = 0.0,
    options: Optional[FilePath] = None,
    vocab: Optional[FilePath] = None,
    token_embeddings: Optional[FilePath] = None,
    gpu_id: Whole = -1,
    force: bool = False,
    progress: Progress = Progress(),
    on_message: OnMessage = ignore_message,
    warn: OnMessage = warnings.warn,
) -> Totals:
    """Stream the texts of a corpus through a biLM, and save their vectors, in bounded memory except for a DocBin file.

    An output folder is written file by file, and the same call again computes only the files that are missing.

    model (FilePath): Name or path of a biLM in any known format.
    texts (FilePath): A file, a folder, a pattern, an address or "-" for stdin: text, one per line, JSONL, DocBins or
        Parquet, plain or compressed.
    output (FilePath): A file that ends in .npz, .hdf5, .parquet or .spacy, a folder or its address, or "-" for an .npz
        on stdout. The help of `elmo embed` describes what is in each.
    to (Literal): "npz", "docbin", "parquet" or "hdf5"; "auto" infers it from the suffix, and is "parquet" for a folder.
    input_format (str): "text", "jsonl", "docbin" or "parquet"; "auto" infers it, see `Source.format`.
    lang (Optional[str]): Language of spaCy's tokenizer for raw text, "none" for tokens between white space; None: the
        language of the biLM if the text looks raw, otherwise "none".
    store (str), forget_sentences (bool), pool (Optional[str]): See `open_vectors`.
    dtype (str), precision (str), batch_size (int), gpu_id (int): See `VectorSettings`.
    docs_per_file (Optional[int]): Texts per file of a folder; None for 10,000 (Parquet) or 1,000 (DocBins).
    keep (Sequence[str]): Fields of JSONL or columns of Parquet that the output keeps; "date:text" keeps text.
    on_error (str): "stop" at a text that cannot be read, or "skip" it and list it beside the output.
    shard (Optional[str]): "I/N" to write the I-th of N shares of a folder, for N parallel jobs.
    engine (str): "local", or "ray" for the workers of a Ray cluster, which write a folder.
    address (Optional[str]), workers (Optional[int]), gpus_per_worker (float): See `embed_parts_on_ray`.
    options, vocab, token_embeddings (Optional[FilePath]): Further files of the biLM, see `load_bilm`.
    force (bool): Replace the output, or the parts of a folder.
    progress (Progress), on_message (OnMessage), warn (OnMessage): Called during the work.
    RETURNS (Totals): What was done.
    RAISES (ValueError): EL060 for invalid arguments, others for those that do not fit each other; for a text that
        cannot be read, unless it is skipped, or if none can be read; for an output that exists, or a folder that was
        written with other settings or texts.
    """
    place, output = (os.fspath(path) if is_address(str(path)) else str(to_path(path)) for path in (texts, output))
    format, is_folder = choose_format(output, to), is_output_folder(output)
    files = {"options": options, "vocab": vocab, "token_embeddings": token_embeddings}
    settings = PartSettings(
        model=str(model),
        folder=output,
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
        keep=tuple((name.removesuffix(AS_TEXT), "string" if name.endswith(AS_TEXT) else "") for name in keep),
        on_error=on_error,
    )
    check_choice(format, store, forget_sentences, [name for name, _ in settings.keep])
    remedy = "`pip install 'ray[data]'`, or leave out `engine`"
    require_package(engine == "local" or has_ray, "The engine ray", "ray", remedy)
    if format == "parquet":
        import_arrow("pyarrow", output, NO_ARROW)
    if not is_folder:
        check_output(output, place, list_sources(str(model), options, vocab, token_embeddings), force=force)
    sources = find_sources(place, on_message, output=output)
    ray_only = {"address": address, "workers": workers, "gpus_per_worker": gpus_per_worker}
    conditions = _list_conditions(settings, sources, engine, shard, ray_only, is_folder=is_folder, force=force)
    if problem := next((text for is_wrong, text in conditions if is_wrong), None):
        raise ValueError(problem)
    settings = find_types(settings, sources, on_message)
    bilm = load_weights(settings, **dict(settings.files))
    chosen = choose_tokenizer(lang, read_beginnings(settings, sources), [place], warn, bilm.meta)
    settings = replace(settings, lang=chosen)
    description, ids = describe_parts(settings, bilm), IdCheck()
    if is_folder:
        begin_folder(settings, description, sources, force=force)
    progress.on_start(sources)
    if engine == "ray":
        total = embed_parts_on_ray(settings, description, sources, address, workers, gpus_per_worker)
    elif is_folder:
        nlp = make_vector_pipeline(settings, bilm)
        job, n_jobs = map(int, (shard or "1/1").split("/"))
        total = PartEmbedder(settings, nlp, description, progress, ids).embed_job(sources, job - 1, n_jobs)
    else:
        with open_vectors(
            output,
            to=to,
            store=store,
            forget_sentences=forget_sentences,
            pool=pool,
            keep=dict(settings.keep),
            force=force,
        ) as writer:
            writer.meta = description
            nlp = make_vector_pipeline(replace(settings, store=writer.store), bilm)
            total = embed_whole(settings, nlp, sources, writer, progress, ids)
            _require_texts(total, output)  # before the file is put in place
    _require_texts(total, output)
    if ids.n_repeated:
        warn(ids.describe())
    return total


def _list_conditions(
    settings: PartSettings,
    sources: Sequence[Source],
    engine: str,
    shard: Optional[str],
    ray_only: Mapping[str, Any],
    *,
    is_folder: bool,
    force: bool,
) -> Iterator[Tuple[bool, str]]:
    """YIELDS (Tuple[bool, str]): Whether arguments do not fit each other or the texts, and the error."""
    job, _, n_jobs = (shard or "1/1").partition("/")
    yield (
        not (job.isdecimal() and n_jobs.isdecimal() and 1 <= int(job) <= int(n_jobs)),
        f"`shard` is '{shard}', should be I/N with I from 1 to N, for instance 1/8.",
    )
    yield (
        not is_folder and (shard is not None or engine == "ray"),
        f"`shard` and `engine='ray'` write a folder, but the output is '{settings.folder}'. Give the path of a folder.",
    )
    needless = next((name for name, value in ray_only.items() if value), None)
    yield (
        engine != "ray" and needless is not None,
        f"`{needless}` is for Ray, and the engine is local. Add `engine='ray'`, or leave it out.",
    )
    yield (
        engine == "ray" and shard is not None,
        f"`shard='{shard}'` is for jobs without Ray, which shares the files itself. Leave one out.",
    )
    yield (
        shard is not None and force,
        "`force=True` would remove the files of other jobs (`shard`). Empty the folder before the first job.",
    )
    stream = next((source.name for source in sources if source.stream is not None), None)
    yield (
        engine == "ray" and stream is not None,
        f"Workers of Ray cannot read '{stream}', a pipe, a device or stdin of this process. Write it to a file that "
        "all workers can read, or leave out `engine`.",
    )
    yield (
        is_folder and stream is not None and not force and has_parts(settings.folder),
        f"The folder '{settings.folder}' has vectors, and '{stream}' is a stream (a pipe, a device or stdin), which "
        "cannot continue a folder: it has no name and no size that would show whether it is the same text. Write it to "
        "a file, choose another folder, or start again with `force=True`.",
    )


def _require_texts(total: Totals, output: str) -> None:
    """RAISES (ValueError): If all texts were skipped."""
    if total.n_skipped and not (total.n_texts or total.n_existing):
        raise ValueError(
            f"None of the {total.n_skipped:,} texts could be read: they are listed, with the reasons, in files "
            f"{SKIPPED} in the folder '{output}' or beside the file. Correct them, and run the same command again."
        )
