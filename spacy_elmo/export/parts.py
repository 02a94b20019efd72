"""Vectors of a large corpus in a folder: each input file gives one or more parts, each written whole or not at all.

The same command again computes only what is missing, on one machine, in several jobs (`shard`), or on a Ray cluster,
whose workers embed one input file at a time with the same function.
"""

import json
import os
import pickle
import re
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import (
    Any,
    BinaryIO,
    Callable,
    Dict,
    Generator,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from spacy.language import Language
from spacy.tokens import Doc

from ..about import __version__
from ..corpora.lines import Counts
from ..corpora.places import MANIFEST, SKIPPED, OnMessage, abbreviate, find_sources, ignore_message
from ..corpora.records import WITH_FIELDS, TextRecord, read_records, to_text
from ..corpora.sources import Source, filesystem_of, is_address, make_source
from ..corpora.texts import make_nlp
from ..files import AnyPath, check_not_read, check_output_file, temporary_folder, write_text
from ..inference.bilm import BiLM
from ..util import find_changes
from .embedder import VectorSettings, load_pipeline
from .vector_files import STDOUT, VECTOR_SUFFIXES, Writer, embed_records, is_output, open_vectors

Records = Generator[TextRecord, None, None]
PART = re.compile(r"part-\d{5,}-\d{5,}\.(parquet|spacy)|_part-\d{5,}-\d{5,}\.skipped\.jsonl")  # what a run writes
TEXTS_PER_FILE = {"parquet": 10_000, "docbin": 1000}
TEXTS_TO_CHECK = 1000  # of a file, for the types of its fields
MAX_IDS = 2_000_000  # that are compared, about 100 bytes each
LOCAL = ("file", "local")  # protocols of addresses of local files
# Settings in which a folder may be continued: they change neither vectors nor parts.
CHANGEABLE_SETTINGS = ("batch_size", "gpu_id", "on_error")


@dataclass(frozen=True, kw_only=True)
class PartSettings(VectorSettings):
    """How the parts of a folder are made, beside `VectorSettings`.

    folder (str): Path or address of the output.
    format (str): A key of `VECTOR_SUFFIXES`.
    texts_per_file (int): Lines, rows or Docs of a part; the last part of an input file may have fewer.
    files (Tuple[Tuple[str, str], ...]): Further arguments of `load_bilm`.
    input_format (str): See `read_records`.
    keep (Tuple[Tuple[str, str], ...]): Fields of the input that become columns, with their types, see `find_types`.
    on_error (str): "stop" at a text that cannot be read, or "skip" it and list it beside its part.
    """

    folder: str
    format: str = "parquet"
    texts_per_file: int = TEXTS_PER_FILE["parquet"]
    files: Tuple[Tuple[str, str], ...] = ()
    input_format: str = "auto"
    keep: Tuple[Tuple[str, str], ...] = ()
    on_error: str = "stop"


class Totals(NamedTuple):
    """What a run has done: texts, tokens and parts written, texts skipped, parts that existed, surrogates replaced."""

    n_texts: int = 0
    n_tokens: int = 0
    n_parts: int = 0
    n_skipped: int = 0
    n_existing: int = 0
    n_replaced: int = 0

    def plus(self, other: "Totals") -> "Totals":
        return Totals(*map(sum, zip(self, other)))


class Progress(NamedTuple):
    """Callbacks for progress; the defaults do nothing.

    on_start (Callable[[Sequence[Source]], object]): Called with the sources before the first text is read.
    on_text (Callable[[Doc], object]): Called with each Doc.
    on_read (Callable[[str, int], object]): Called with the name of a source and how many of its bytes have been read.
    """

    on_start: Callable[[Sequence[Source]], object] = lambda sources: None
    on_text: Callable[[Doc], object] = lambda doc: None
    on_read: Callable[[str, int], object] = lambda name, position: None


class IdCheck:
    """Counts the texts with an id that an earlier text has, among the first `MAX_IDS` ids."""

    def __init__(self) -> None:
        self.n_repeated = 0
        self._ids: Set[int] = set()
        self._example = ""

    def add(self, id: Any, place: str) -> None:
        key = hash(str(id))
        if key in self._ids:
            self.n_repeated += 1
            self._example = self._example or f"{id!r} ({place})"
        elif len(self._ids) < MAX_IDS:
            self._ids.add(key)

    def describe(self) -> str:
        texts = "1 text has" if self.n_repeated == 1 else f"{self.n_repeated:,} texts have"
        return (
            f"{texts} an id that an earlier text has, for instance {self._example}, so that rows cannot be told apart "
            "by it. Correct the ids, or leave id out of `keep`: then the id is FILE:LINE."
        )


def describe_parts(settings: PartSettings, bilm: BiLM) -> Dict[str, Any]:
    """How vectors are made, for the manifest and the metadata of each part."""
    record = {name: value for name, value in asdict(settings).items() if name not in (*CHANGEABLE_SETTINGS, "folder")}
    record["files"] = dict(settings.files)
    return {
        **record,
        "keep": dict(settings.keep),
        "fingerprint": bilm.digest,
        "n_layers": bilm.config.n_layers,
        "width": bilm.config.output_width,
        "version": __version__,
    }


def find_types(
    settings: PartSettings, inputs: Sequence[Source], on_message: OnMessage = ignore_message
) -> PartSettings:
    """The settings with the types of the columns that `keep` names, which are "" or chosen by the user before. The
    first `TEXTS_TO_CHECK` texts that have fields decide: "int64" or "float64" if all of them are numbers or null, else
    "string". Files without fields give a message. ValueError for fields that no text has.
    """
    if not settings.keep:
        return settings
    kinds = [source.format if settings.input_format == "auto" else settings.input_format for source in inputs]
    with_fields = [source for source, kind in zip(inputs, kinds) if kind in WITH_FIELDS]
    without_fields = [source.name for source, kind in zip(inputs, kinds) if kind not in WITH_FIELDS]
    fields = ", ".join(name for name, _ in settings.keep)
    if not with_fields:
        raise ValueError(
            f"'{inputs[0].name}' is read as {kinds[0]}, which has no fields {fields} to keep. Give JSONL or "
            "Parquet, or keep none."
        )
    if without_fields:
        names = abbreviate(without_fields)
        on_message(f"Only JSONL and Parquet have fields: the texts of {names} are written without {fields}")
    typed = tuple((name, kind or _find_type(settings, with_fields, name)) for name, kind in settings.keep)
    return replace(settings, keep=typed)


def _find_type(settings: PartSettings, inputs: Sequence[Source], field: str) -> str:
    nlp, problem, is_somewhere = make_nlp("xx"), None, False
    for source in inputs:
        with closing(read_records(source.look(), nlp, Counts(), format=settings.input_format, keep=[field])) as records:
            first = list(islice(records, TEXTS_TO_CHECK))
        values = [record.fields[field] for record in first if record.error is None]
        if kinds := {type(value) for value in values if value is not None}:
            return "int64" if kinds == {int} else "float64" if kinds <= {int, float} else "string"
        is_somewhere = is_somewhere or bool(values)
        problem = problem or next((record.error for record in first if record.error is not None), None)
    if problem is not None and not is_somewhere:
        raise problem
    return "string"


def read_beginnings(settings: PartSettings, inputs: Sequence[Source]) -> Iterator[List[str]]:
    """Stream texts, split at white space, that a tokenizer would split. What is read of a stream is not lost."""
    nlp = make_nlp("xx")
    for source in inputs:
        kind = source.format if settings.input_format == "auto" else settings.input_format
        if kind != "docbin":
            records = read_records(source.look(), nlp, Counts(), format=kind, is_tokenized=True)
            yield from (record.item for record in records if isinstance(record.item, list))


def _fit(record: TextRecord, keep: Sequence[Tuple[str, str]]) -> TextRecord:
    """The record with its fields in the types of the columns, or with an error."""
    fields: Dict[str, Any] = {}
    for name, kind in keep:
        value = record.fields.get(name)
        if kind == "string":
            value = to_text(value)
        elif value is not None:
            is_number = isinstance(value, (int, float)) and (isinstance(value, float) or abs(value) < 2**1023)
            problem = ""
            if not is_number or (kind == "int64" and not (float(value).is_integer() and abs(value) < 2**63)):
                problem = f"{record.place} has {value!r} in the field {name}, whose first values are numbers ({kind})."
            elif kind == "float64" and isinstance(value, int) and int(float(value)) != value:
                problem = f"{record.place} has {value!r} in the field {name}, whose numbers are {kind}: it is rounded."
            if problem:
                error = ValueError(f"{problem} Correct it, or keep the field as text with `keep=['{name}:text']`.")
                return TextRecord(record.place, "", error=error)
            value = int(value) if kind == "int64" else float(value)
        if name in record.fields:  # a text of a file without fields has an id of its own
            fields[name] = value
    return record._replace(fields=fields)


def check_output(path: str, place: str, bilm_files: Sequence[AnyPath], *, force: bool) -> None:
    """Check an output file, before texts and weights are read. For a folder see `begin_folder`.

    path (str): A file, or "-" for stdout.
    place (str): Where the texts are. An earlier output in a folder is no text; any other file there is one.
    RAISES (ValueError): See `check_output_file`.
    """
    target = Path(path)
    if path == STDOUT:
        return
    sources = [*bilm_files, _to_local(place)] if not Path(_to_local(place)).is_dir() else [*bilm_files]
    if target.is_file() and not is_output(target):
        sources += [_to_local(source.name) for source in find_sources(place)]
    check_output_file(target, force=force, sources=sources)


def _check_parts(output: str, inputs: Sequence[Source]) -> None:
    """ValueError for an input among the parts of the output folder."""
    if not is_address(_to_local(output)):
        check_not_read(Path(_to_local(output)), [_to_local(source.name) for source in inputs])
    elif inside := [source.name for source in inputs if source.name.startswith(f"{output.rstrip('/')}/")]:
        raise ValueError(f"The output '{output}' has a file that is read: '{inside[0]}'. Choose another output.")


def _to_local(place: str) -> str:
    """RETURNS (str): The path of an address of a local file; other places as they are."""
    is_local = place.partition("://")[0] in LOCAL and is_address(place)
    return str(filesystem_of(place)[1]) if is_local else place


def has_parts(folder: str) -> bool:
    return any(map(PART.fullmatch, Folder(folder).names()))


def begin_folder(
    settings: PartSettings, description: Mapping[str, Any], inputs: Sequence[Source], *, force: bool
) -> None:
    """Create the folder with its manifest, or compare the manifest that it has; `description` is from
    `describe_parts`. `force` removes the parts of an earlier run. ValueError for other files in the folder, which are
    never removed; for an input in it; without `force` for another biLM, setting or input.
    """
    folder = Folder(settings.folder)
    manifest = {**description, "inputs": [{"name": source.name, "bytes": source.size_bytes} for source in inputs]}
    names = folder.names()
    visible = [name for name in names if not name.startswith(".")]
    foreign_files = [name for name in visible if name != MANIFEST and not PART.fullmatch(name)]
    if foreign_files or (visible and MANIFEST not in names):
        raise ValueError(
            f"The folder '{settings.folder}' has files that `elmo embed` did not write, such as "
            f"'{(foreign_files or visible)[0]}'. Choose another folder; `force=True` replaces parts of an earlier run, "
            "and nothing else."
        )
    _check_parts(settings.folder, inputs)
    if not force and any(PART.fullmatch(name) for name in names):
        before = json.loads(folder.read(MANIFEST))
        if different := _find_setting_changes(before, manifest):
            lines = "; ".join(_difference(name, *values) for name, values in different.items())
            raise ValueError(
                f"The folder '{settings.folder}' was written with other settings: {lines}. Continue with the settings, "
                "weights and texts that it was written with, choose another folder, or start again with `force=True`."
            )
        return
    for name in visible:
        if name != MANIFEST:
            folder.remove(name)
    folder.write(MANIFEST, json.dumps(manifest, indent=2, ensure_ascii=False))


def _find_setting_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Dict[str, Tuple[Any, Any]]:
    names = [name for name in now if name != "version"]
    return find_changes(*({name: record.get(name) for name in names} for record in (before, now)))


def _difference(name: str, before: Any, now: Any) -> str:
    if name != "inputs":
        return f"{name} was {before!r}, now {now!r}"
    known = {item["name"]: item["bytes"] for item in before or []}
    changed = [item["name"] for item in now if known.get(item["name"]) != item["bytes"]]
    gone = [name for name in known if name not in {item["name"] for item in now}]
    return "the texts differ: " + "; ".join(
        f"{what} {', '.join(names[:3])}{' and more' if len(names) > 3 else ''}"
        for what, names in (("new or changed", changed), ("missing", gone))
        if names
    )


class PartEmbedder:
    """Writes the parts that are missing in a folder from `begin_folder`. Raises ValueError for a text that cannot be
    read, unless it is skipped.

    nlp (Language): From `make_vector_pipeline`.
    description (Mapping[str, Any]): From `describe_parts`.
    """

    def __init__(
        self,
        settings: PartSettings,
        nlp: Language,
        description: Mapping[str, Any],
        progress: Progress = Progress(),
        ids: Optional[IdCheck] = None,
    ) -> None:
        self.settings, self.nlp, self.description = settings, nlp, json.loads(json.dumps(description))
        self._progress, self._ids = progress, ids or IdCheck()
        self._folder = Folder(settings.folder)

    def embed_job(self, sources: Sequence[Source], job: int, n_jobs: int) -> Totals:
        """Write the parts of one of several jobs, which has each n-th file, or each n-th part if there are fewer files
        than jobs. Jobs are numbered from 0.
        """
        total = Totals()
        for i, source in enumerate(sources):
            if len(sources) < n_jobs:
                total = total.plus(self.embed_file(i, source, (job - i) % n_jobs, n_jobs))
            elif i % n_jobs == job:
                total = total.plus(self.embed_file(i, source))
        return total

    def embed_file(self, file_number: int, source: Source, first_part: int = 0, step: int = 1) -> Totals:
        """Write the missing parts of a source, by its number among the sources: part-NUMBER-0, part-NUMBER-1 and so on,
        or each `step`-th of them.
        """
        counts, total = Counts(), Totals()
        existing = set(self._folder.names())
        with closing(_read_source(self.settings, self.nlp, source, counts, self._progress, self._ids)) as records:
            for k, part in enumerate(_cut_records(records, self.settings.texts_per_file)):
                stem = f"part-{file_number:05}-{k:05}"
                is_existing = stem + VECTOR_SUFFIXES[self.settings.format] in existing
                if k % step == first_part and not is_existing:
                    total = total.plus(self._embed_part(stem, part, file_number, source.name))
                    continue
                total = total.plus(Totals(n_existing=int(k % step == first_part)))
                for _ in part:
                    pass
        return total.plus(Totals(n_replaced=counts.n_undecodable))

    def _embed_part(self, stem: str, part: Iterator[TextRecord], file_number: int, source_name: str) -> Totals:
        settings = self.settings
        with self._folder.part(stem + VECTOR_SUFFIXES[settings.format]) as path:
            with open_vectors(str(path), store=settings.store, pool=settings.pool, keep=dict(settings.keep)) as writer:
                writer.meta = self.description
                n_texts, n_tokens, skipped = embed_records(
                    self.nlp, part, writer, settings.batch_size, settings.on_error, self._progress.on_text
                )
            self._check_manifest(file_number, source_name)
            if skipped:
                self._folder.write(f"_{stem}{SKIPPED}", "".join(skipped))
                if not n_texts:  # no part, so that the same command reads them again
                    path.unlink()
        return Totals(n_texts, n_tokens, 1, len(skipped))

    def _check_manifest(self, file_number: int, source_name: str) -> None:
        """ValueError if another command has restarted the folder with other settings or texts."""
        manifest = json.loads(self._folder.read(MANIFEST))
        is_same_text = [item["name"] for item in manifest["inputs"][file_number : file_number + 1]] == [source_name]
        if not is_same_text or _find_setting_changes(manifest, self.description):
            raise ValueError(
                f"The folder '{self.settings.folder}' was restarted by another command, with another biLM, other "
                "settings or other texts. Run one of the two commands again, or give each a folder of its own."
            )


def embed_whole(
    settings: PartSettings, nlp: Language, sources: Sequence[Source], writer: Writer, progress: Progress, ids: IdCheck
) -> Totals:
    """Write all texts to one output file with a writer from `open_vectors`; `settings.folder` is its path, beside which
    skipped texts are listed. ValueError for a text that cannot be read, unless it is skipped.
    """
    counts, listing = Counts(), Path(f"{settings.folder}{SKIPPED}")
    if settings.on_error == "skip":
        check_not_read(listing, [source.name for source in sources])
    with closing(
        record for source in sources for record in _read_source(settings, nlp, source, counts, progress, ids)
    ) as records:
        n_texts, n_tokens, skipped = embed_records(
            nlp, records, writer, settings.batch_size, settings.on_error, progress.on_text
        )
    if skipped:
        write_text(listing, "".join(skipped))
    return Totals(n_texts, n_tokens, 1, len(skipped), n_replaced=counts.n_undecodable)


def _read_source(
    settings: PartSettings, nlp: Language, source: Source, counts: Counts, progress: Progress, ids: IdCheck
) -> Records:
    """The records of a source; its position is reported."""
    files: List[BinaryIO] = []
    for record in read_records(
        source,
        nlp,
        counts,
        format=settings.input_format,
        is_tokenized=settings.lang is None,
        keep=[field for field, _ in settings.keep],
        on_open=files.append,
    ):
        if files and not files[0].closed:
            progress.on_read(source.name, files[0].tell())
        if "id" in record.fields:
            ids.add(record.fields["id"], record.place)
        yield record if record.error is not None else _fit(record, settings.keep)
    progress.on_read(source.name, source.size_bytes)


def _cut_records(records: Iterator[TextRecord], n: int) -> Iterator[Iterator[TextRecord]]:
    """YIELDS (Iterator[TextRecord]): The next records, at least one, which must be read before the next are cut."""
    for first in records:
        yield chain([first], islice(records, n - 1))


class Folder:
    """An output folder at a path or an address. Files appear in it under their names when they are complete."""

    def __init__(self, place: str) -> None:
        self.is_remote = is_address(place)
        self.path = Path(place)
        if self.is_remote:
            self._files, self._root = filesystem_of(place)

    def names(self) -> List[str]:
        """Its files, without temporary files; empty if it does not exist."""
        if self.is_remote:
            names = [name.rpartition("/")[2] for name in self._files.find(self._root, maxdepth=1)]
        else:
            names = os.listdir(self.path) if self.path.is_dir() else []
        return sorted(name for name in names if not name.endswith(".part"))

    def read(self, name: str) -> str:
        if self.is_remote:
            content: bytes = self._files.cat_file(f"{self._root}/{name}")
            return content.decode("utf8")
        return (self.path / name).read_text("utf8")

    def write(self, name: str, text: str) -> None:
        if self.is_remote:
            self._files.pipe_file(f"{self._root}/{name}", text.encode("utf8"))
        else:
            write_text(self.path / name, text)

    def remove(self, name: str) -> None:
        if self.is_remote:
            self._files.rm_file(f"{self._root}/{name}")
        else:
            (self.path / name).unlink(missing_ok=True)

    @contextmanager
    def part(self, name: str) -> Iterator[Path]:
        """Provide a path where a file can be written. If it exists at the end, it is put in place."""
        with temporary_folder(f".{name}", None if self.is_remote else self.path) as place:
            yield place / name
            if not (place / name).exists():
                return
            if self.is_remote:
                self._files.makedirs(self._root, exist_ok=True)
                self._files.put_file(str(place / name), f"{self._root}/.{name}.part")
                self._files.mv(f"{self._root}/.{name}.part", f"{self._root}/{name}")
            else:
                os.replace(place / name, self.path / name)


class _RayWorker:
    """A worker of Ray Data, which embeds one source at a time. It loads the weights once. What it raises is in the row:
    Ray would show it as the last line of a traceback.
    """

    def __init__(self, settings: PartSettings, description: Mapping[str, Any]) -> None:
        self.settings, self.description = settings, description
        self.embedder: Optional[PartEmbedder] = None

    def __call__(self, row: Dict[str, Any]) -> Dict[str, Any]:
        total, error = Totals(), b""
        try:
            if self.embedder is None:
                nlp = load_pipeline(self.settings, **dict(self.settings.files))
                self.embedder = PartEmbedder(self.settings, nlp, self.description)
            total = self.embedder.embed_file(int(row["number"]), make_source(str(row["name"])))
        except (ValueError, OSError) as problem:
            error = pickle.dumps(problem)
        return {**row, **total._asdict(), "error": error}


def embed_parts_on_ray(
    settings: PartSettings,
    description: Mapping[str, Any],
    sources: Sequence[Source],
    address: Optional[str] = None,
    n_workers: Optional[int] = None,
    gpus_per_worker: float = 0.0,
) -> Totals:
    """Write the parts that are missing with Ray Data, see `PartEmbedder`. Ray restarts workers and tasks that are lost;
    sources and outputs are where all workers can read and write them.

    address (Optional[str]): Address of a running cluster; None for one that runs on this machine, or for a new one.
    n_workers (Optional[int]): Workers, each with one CPU; None for as many as there are CPUs (with GPUs: GPUs).
    gpus_per_worker (float): GPUs that each worker has; a fraction shares a GPU.
    """
    ray, data = import_module("ray"), import_module("ray.data")
    if not ray.is_initialized():
        ray.init(address=address, log_to_driver=False)
    if n_workers is None:
        resources = ray.cluster_resources()
        n_gpus, n_cpus = resources.get("GPU", 0), resources.get("CPU", 1)
        n_workers = max(1, int(n_gpus / gpus_per_worker if gpus_per_worker else n_cpus))
    if gpus_per_worker:
        settings = replace(settings, gpu_id=0)  # Ray shows each worker its own GPU only
    rows = [{"number": i, "name": source.name} for i, source in enumerate(sources)]
    embedded = data.from_items(rows, override_num_blocks=len(rows)).map(
        _RayWorker,
        fn_constructor_args=(settings, dict(description)),
        compute=data.ActorPoolStrategy(size=min(n_workers, len(rows))),
        num_cpus=1,
        num_gpus=gpus_per_worker,
    )
    total = Totals()
    for row in embedded.iter_rows():
        if row["error"]:
            raise pickle.loads(row["error"])
        total = total.plus(Totals(**{name: int(row[name]) for name in Totals._fields}))
    return total
