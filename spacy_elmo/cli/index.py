"""`elmo index`: store the contextual vectors of a corpus."""

import shutil
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import srsly
import typer
from tqdm import tqdm

from ..analysis.index_build import (
    IndexBuilder,
    find_differences,
    find_documents,
    make_filter,
    make_settings,
    open_for_writing,
    read_settings,
    replace_index,
    start_replacement,
    use_stored_vectors,
)
from ..analysis.neighbors import NeighborIndex, check_recall, to_printable
from ..analysis.token_store import DOCUMENT, STORE_FILE, LockedError
from ..analysis.vector_search import repair_search
from ..corpora.lines import Counts
from ..corpora.shards import choose_cutter, find_shards, read_first
from ..corpora.texts import WHITE_SPACE, PunctuationCheck, choose_lang, choose_tokenizer, warn_of_raw_text
from ..files import check_not_read
from ..settings import Precision
from . import _common
from ._app import Arg, Opt, app
from ._index import LAYER_OPT, to_layer

BILM = "en_elmo_sm"
NOTICE = b"\nStopping after this batch. Press Ctrl+C again to stop at once; what the index has stays.\n"


@app.command("index")
def index_cli(
    # fmt: off
    corpus_path: Optional[List[str]] = Arg(None, help=_common.CORPUS_HELP),
    index_path: Path = Arg(..., help="Folder of the index, new or to be added to."),
    bilm_path: Optional[str] = Opt(
        None,
        "--bilm",
        "-b",
        help="Folder, file or zip with biLM weights, or the name of a packaged biLM; by default the biLM of the index, en_elmo_sm for a new index.",
    ),
    layer: Optional[str] = LAYER_OPT,
    content_words: Optional[bool] = Opt(
        None,
        "--content-words/--all-words",
        "-w/-W",
        help="Store only words with a letter that are not stop words of spaCy for --lang, or without it for the language of the biLM (or English); by default as in the index, all words in a new index.",
    ),
    precision: Optional[Precision] = Opt(
        None,
        "--precision",
        "-p",
        help="Precision of the computation; by default as in the index, float32 for a new index.",
    ),
    keep: Optional[str] = Opt(
        None,
        "--keep",
        "-k",
        help="Fields of JSON texts and data sets to store for --group-by of other commands, separated by commas: author,year. They are added to the fields of the index.",
    ),
    delete: List[str] = Opt([], "--delete", "-d", help="Delete a document by its name; repeat for several."),
    check: bool = Opt(False, "--check", "-c", help="Report recall@10 against exact search, and the time of a query."),
    corpus_format: _common.CorpusFormat = _common.FORMAT_OPT,
    lang: Optional[str] = _common.CORPUS_LANG_OPT,
    running_text: bool = _common.RUNNING_TEXT_OPT,
    gpu_id: int = _common.GPU_OPT,
    as_json: bool = _common.JSON_OPT,
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Store the contextual vectors of a corpus with their sentences, to search them for neighbors and senses.

    A file of plain text is one document, and so is every line of JSON, every Doc and every row of a data set. Documents
    that the index has are skipped, changed documents are replaced; if a file has fewer lines or Docs than before, its
    last documents are deleted. A pipe or stdin replaces no document: its name does not show which text it is. A build
    that was stopped or killed continues with the same command. Without a corpus, a missing search file is rebuilt.
    Ctrl+C and SIGTERM stop it after the current batch.
    """
    with _common.show_errors():
        places = corpus_path or []
        is_repaired = not places and not delete and _repair(index_path)
        if not places and not delete and not check and not is_repaired:
            raise ValueError(
                f"Nothing to do with the index '{index_path}': no corpus, no --delete and no --check. Name a "
                "corpus before it, or choose --check or --delete."
            )
        if places or delete:
            has_index = (index_path / STORE_FILE).is_file()
            if not _change_index(
                places,
                delete,
                index_path,
                {"format": corpus_format, "lang": lang, "running_text": running_text},
                bilm=bilm_path,
                layer=layer,
                content_words=content_words,
                precision=precision,
                fields=[name.strip() for name in (keep or "").split(",") if name.strip()],
                gpu_id=gpu_id,
                force=force,
            ):
                remedy = f"The same command{' without --force' if force else ''} continues."
                if force and has_index:
                    remedy = "The index is as it was."
                elif stream := next(filter(_common.is_stream, places), None):
                    remedy = (
                        f"The rest of '{stream}', a stream, is lost, and cannot be continued. Write its text to a file, "
                        "and build the index from it with --force."
                    )
                _common.msg.warn(f"Stopped. {remedy}")
                raise typer.Exit(1)
        _report(index_path, check=check, as_json=as_json)


def _change_index(
    places: List[str],
    delete: List[str],
    path: Path,
    corpus: Dict[str, Any],
    *,
    bilm: Optional[str],
    layer: Optional[str],
    content_words: Optional[bool],
    precision: Optional[str],
    fields: Sequence[str],
    gpu_id: int,
    force: bool,
) -> bool:
    """Delete documents, then add a corpus. Arguments are the command's; None stands for the setting of the index.

    corpus (Dict[str, Any]): Format, language and kind of the text, see `find_shards`.
    RETURNS (bool): Whether everything was read: False if it was stopped.
    RAISES (ValueError): See `open_for_writing`, `start_replacement`, `find_shards` and `IndexBuilder.delete`.
    """
    is_replaced = force and bool(places)
    before = _read_kept(path) if is_replaced else read_settings(path, is_needed=not places)
    is_new = is_replaced or not before
    name = bilm or before.get("bilm", BILM)
    reading, is_plain = _choose_reading(places, corpus, {} if is_replaced else before.get("reading", {}))
    shards = []
    if places:  # an error in a path comes before the biLM is loaded
        shards = find_shards(places, on_message=_common.msg.info, output=path, **{**corpus, **reading})
        check_not_read(path / STORE_FILE, [shard.source.name for shard in shards if shard.source is not None])
    model = _common.open_bilm(name, gpu_id=gpu_id).set_precision(precision or before.get("precision", "float32"))
    is_chosen = bool(places) and is_new and not is_plain and reading["lang"] is None
    if is_chosen:
        reading["lang"] = choose_tokenizer(None, read_first(shards), places, _common.msg.warn, model.meta)
        if reading["lang"]:
            shards = choose_cutter(shards, **reading)
    stop_words = before.get("content_words", "")
    if content_words is not None:
        lang = None if corpus["lang"] == WHITE_SPACE else corpus["lang"]
        stop_words = choose_lang(lang, stop_words, model.meta.get("lang")) if content_words else ""
    # Another biLM may have other layers.
    default = before["layer"] if before.get("bilm_digest") == model.digest else model.config.n_layers
    chosen = default if layer is None else to_layer(layer)
    if n_files := use_stored_vectors(shards, model, chosen):
        _common.msg.info(f"The vectors of {_common.counted(n_files, 'Parquet file')} are used as they are.")
    settings = make_settings(model, name=str(name), layer=chosen, content_words=stop_words, reading=reading)
    differences = find_differences(before, settings) if is_replaced and before else []
    if differences:
        _common.msg.info(f"The new index has other settings than the old one: {'; '.join(differences)}")
    target = start_replacement(path) if is_replaced else path
    try:
        with closing(open_for_writing(target, settings)) as store:
            check = PunctuationCheck()
            field_names = dict.fromkeys([*before.get("fields", []), *fields])
            builder = IndexBuilder(store, model, keep=make_filter(stop_words), fields=list(field_names))
            is_complete = _fill(builder, shards, delete, check)
            if not (is_chosen or is_plain):
                warn_of_raw_text(check, places, reading.get("lang"), _common.msg.warn, model.meta)
        if is_complete and target != path:
            replace_index(path, target)
        return is_complete
    finally:
        if target != path:
            shutil.rmtree(target, ignore_errors=True)


def _choose_reading(places: List[str], corpus: Dict[str, Any], stored: Dict[str, Any]) -> Tuple[Dict[str, Any], bool]:
    """How texts are split: according to the options, else like those in the index; and whether that is at white space
    by choice.
    """
    if not places:
        return stored, False
    reading = {key: corpus[key] or stored.get(key, corpus[key]) for key in ("lang", "running_text")}
    is_plain = reading["lang"] == WHITE_SPACE
    return {**reading, "lang": None if is_plain else reading["lang"]}, is_plain


def _read_kept(path: Path) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Settings of an index that will be replaced; empty if they cannot be read."""
    try:
        return read_settings(path, is_needed=False)
    except LockedError:
        raise
    except ValueError:
        _common.msg.warn(
            f"The settings of the damaged index '{path}' cannot be read. The new index has those that are given, "
            "and otherwise the defaults: check --bilm, --layer, --precision and --content-words."
        )
        return {}


def _repair(path: Path) -> bool:
    if not (path / STORE_FILE).is_file():
        return False
    with tqdm(disable=None, unit="tok", unit_scale=True, file=sys.stderr, desc="search") as bar:
        is_repaired = repair_search(path, progress=bar.update)
    if is_repaired:
        _common.msg.good("Made the search file again from the stored vectors.")
    return is_repaired


def _fill(builder: IndexBuilder, shards: Any, delete: List[str], check: PunctuationCheck) -> bool:
    counts = Counts()
    names = list(dict.fromkeys(delete))
    for name in names:
        builder.require(name)  # all of them, before the first is deleted: the index stays searchable
    builder.check_streams(shards, names)
    for name in names:
        _common.msg.info(f"Deleted {_common.counted(builder.delete(name), 'token')} of '{name}'")
    with _common.stop_on_signals(builder.stop, NOTICE):
        with tqdm(disable=None, unit="tok", unit_scale=True, file=sys.stderr) as bar:
            documents = find_documents(shards, counts, builder.delete_above)
            builder.add(documents, bar.update, check.add)
        if builder.is_stopped:
            return False
        with tqdm(disable=None, unit="tok", unit_scale=True, file=sys.stderr, desc="search") as bar:
            builder.finish(bar.update)
    if shards:
        record = {
            "unchanged": builder.n_unchanged - builder.n_updated,
            "with changed fields": builder.n_updated,
            "replaced": builder.n_replaced,
        }
        also = "".join(f"; {_common.counted(n, 'document')} {what}" for what, n in record.items() if n)
        if builder.n_dropped:
            dropped = _common.counted(builder.n_dropped, "document")
            _common.msg.info(f"Deleted {dropped} with numbers above the end of their files, which have become shorter")
        if not builder.n_read and not builder.n_unchanged:
            _common.msg.warn("The corpus has no tokens.")
        _common.msg.info(f"Read {_common.counted(builder.n_read, 'token')}{also}")
        for name in builder.fields:
            _warn_of_field(builder, name)
    return True


def _warn_of_field(builder: IndexBuilder, name: str) -> None:
    n, n_with = builder.n_documents, builder.n_with[name]
    if not n_with and n:
        known = to_printable(", ".join(builder.known_fields)) or "none; --keep reads JSON texts and data sets"
        _common.msg.warn(f"No document has the field '{to_printable(name)}'. Fields of the first document: {known}")
    elif n_with < n:
        _common.msg.warn(f"{_common.counted(n - n_with, 'document')} of {n:,} without the field '{to_printable(name)}'")


def _report(path: Path, *, check: bool, as_json: bool) -> None:
    with NeighborIndex.open(path) as index:
        size = sum(file.stat().st_size for file in path.iterdir())
        fields = [to_printable(name) for name in index.store.field_names() if name != DOCUMENT]
        record: Dict[str, Any] = {
            "tokens": index.n_tokens,
            "words": len(index.words),
            "documents": index.n_documents,
            "layer": index.layer,
            **({"fields": ", ".join(fields)} if fields else {}),
            "bilm": index.settings["bilm"],
            "digest": index.bilm_digest,
            "megabytes": round(size / 1e6, 1),
        }
        if check and not index.n_tokens:
            _common.msg.warn("The index has no tokens: there is nothing to check.")
        elif check:
            recall = check_recall(index)
            record.update({f"recall@{recall.k}": round(recall.recall, 4), "query_ms": round(recall.query_ms, 2)})
    if as_json:
        print(srsly.json_dumps(record))
    else:
        _common.msg.table({key: f"{value:,}" if isinstance(value, int) else value for key, value in record.items()})
