"""Find the shards of a corpus: files, folders, patterns and data sets."""

import os
from pathlib import Path
from typing import List, Optional, Sequence, Set, Union

from .._choices import AnyPath
from .._settings import to_path
from ..errors import Errors
from .datasets import PREFIX, DatasetShard, is_saved_dataset
from .files import Tell, find_files, format_of, name_some, say_nothing
from .records import DocBinShard, JsonShard, RawTextShard
from .sentences import SentenceCutter
from .shards import Counts, Shard, TextShard

FORMATS = ("auto", "text", "jsonl", "docbin")


def find_shards(
    places: Union[AnyPath, Sequence[AnyPath]],
    *,
    lang: Optional[str] = None,
    format: str = "auto",
    running_text: bool = False,
    tell: Tell = say_nothing,
) -> List[Shard]:
    """Find the shards of a corpus, sorted by name. A file that is named more than once is read once.

    places (Union[AnyPath, Sequence[AnyPath]]): Files; folders, searched at any depth for .txt, .jsonl, .ndjson (each
        also .gz, .xz, .zst) and .spacy; patterns with `*` or `**`; `hf:NAME[:SPLIT][:COLUMN]` or a folder saved by
        `datasets`; "-" for text from stdin, which can be read once.
    lang (Optional[str]): Language of the tokenizer of plain texts; None: tokens are separated by white space.
    format (str): "text", "jsonl" or "docbin" for all files; "auto" infers it from the suffix.
    running_text (bool): Split texts into sentences.
    tell (Tell): Called with a message on files of folders that are not read, and on files that are named twice.
    RETURNS (List[Shard]): At least one shard, not yet read.
    RAISES (ValueError): EL133 for a place without texts, EL106 if `datasets` is missing, EL137 for an unknown language,
        EL139 for a name that is not UTF-8, EL141 for a data set that cannot be opened, EL143 for an unknown format.
    """
    if format not in FORMATS:
        raise ValueError(Errors.EL143.format(format=format, known=", ".join(FORMATS)))
    cutter = SentenceCutter(lang, running_text=running_text)
    shards: List[Shard] = []
    seen: Set[str] = set()
    repeated: List[str] = []
    for place in map(os.fsdecode, [places] if isinstance(places, (str, bytes, os.PathLike)) else places):
        is_dataset = place.startswith(PREFIX) or is_saved_dataset(to_path(place))
        for path in [place] if is_dataset else map(str, find_files(place, tell)):
            _refuse_other_encodings(path)
            known = path if path.startswith(PREFIX) else str(Path(path).resolve())
            if known in seen:
                repeated.append(path)
                continue
            seen.add(known)
            shards.append(DatasetShard(path, cutter) if is_dataset else _make_shard(Path(path), format, cutter))
    if repeated:
        tell(f"Files named more than once are read once: {name_some(repeated)}")
    return shards


def describe_counts(counts: Counts) -> str:
    """RETURNS (str): A summary of the text, with empty records, long sentences and undecodable bytes."""
    exceptions = [
        (counts.n_empty, "empty lines or texts skipped"),
        (counts.n_long, "long sentences split"),
        (counts.n_undecodable, "invalid UTF-8 sequences replaced by U+FFFD"),
    ]
    parts = [f"Read {counts.n_tokens:,} tokens in {counts.n_sentences:,} sentences"]
    return "; ".join(parts + [f"{n:,} {what}" for n, what in exceptions if n])


def _refuse_other_encodings(name: str) -> None:
    """Python decodes bytes of a name that are not UTF-8 to unpaired surrogates, which JSON files cannot store."""
    escaped = name.encode("utf8", "backslashreplace").decode("utf8")
    if escaped != name:
        raise ValueError(Errors.EL139.format(name=repr(escaped)))


def _make_shard(path: Path, format: str, cutter: SentenceCutter) -> Shard:
    kind = format if format != "auto" else format_of(path)
    if kind == "docbin":
        return DocBinShard(path, cutter)
    if kind == "jsonl":
        return JsonShard(path, cutter)
    return TextShard(path) if cutter.is_plain else RawTextShard(path, cutter)
