"""Find a corpus: files, folders, patterns and data sets become the shards that pretraining reads."""

from glob import glob
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Union

from ..errors import Errors
from ..pretraining.corpus import Counts, Shard, TextShard
from ..pretraining.lines import COMPRESSED, STDIN
from ._datasets import PREFIX, DatasetShard, is_saved_dataset
from ._records import DocBinShard, JsonShard, RawTextShard
from ._sentences import SentenceCutter

# What a folder is searched for; other files, when they are named, are text.
SUFFIXES: Dict[str, str] = {".txt": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".spacy": "docbin"}
FORMATS = ("auto", "text", "jsonl", "docbin")
Place = Union[str, Path]
Tell = Callable[[str], Any]
MAX_NAMED = 5  # files that a statement names


def say_nothing(text: str) -> None:
    """text (str): Of no interest."""


def find_shards(
    places: Union[Place, Sequence[Place]],
    *,
    lang: Optional[str] = None,
    format: str = "auto",
    running_text: bool = False,
    tell: Tell = say_nothing,
) -> List[Shard]:
    """The shards of a corpus, in an order that depends on the names alone. A file that is named twice is read once.

    places (Union[Place, Sequence[Place]]): Files; folders, searched at any depth for .txt, .jsonl, .ndjson (each also
        .gz, .xz, .zst) and .spacy; patterns with `*` or `**`; `hf:NAME[:SPLIT][:COLUMN]` or a folder that
        `datasets` saved; "-" for text from stdin, which can be read once.
    lang (Optional[str]): Tokenizer of plain texts; None: tokens are separated by spaces.
    format (str): "text", "jsonl" or "docbin" for all files; "auto" goes by suffix.
    running_text (bool): A text has several sentences, and is cut after them.
    tell (Tell): Is told which files of folders are left out, and which are named twice.
    RETURNS (List[Shard]): At least one, none is read yet.
    RAISES (ValueError): EL133 for a place with nothing to read, EL106 if `datasets` is missing, EL137 for an unknown
        language, EL141 for a data set that cannot be opened, EL143 for an unknown format.
    """
    if format not in FORMATS:
        raise ValueError(Errors.EL143.format(format=format, known=", ".join(FORMATS)))
    cutter = SentenceCutter(lang, running_text=running_text)
    shards: List[Shard] = []
    seen: Set[str] = set()
    repeated: List[str] = []
    for place in map(str, [places] if isinstance(places, (str, Path)) else places):
        is_dataset = place.startswith(PREFIX) or is_saved_dataset(Path(place))
        for path in [place] if is_dataset else map(str, _find_files(place, tell)):
            known = path if path.startswith(PREFIX) else str(Path(path).resolve())
            if known in seen:
                repeated.append(path)
                continue
            seen.add(known)
            shards.append(DatasetShard(path, cutter) if is_dataset else _make_shard(Path(path), format, cutter))
    if repeated:
        tell(f"Named more than once, read once: {_name_some(repeated)}")
    return shards


def describe_counts(counts: Counts) -> str:
    """RETURNS (str): A statement about what was read, and what was peculiar about it."""
    peculiar = [
        (counts.n_empty, "empty lines or texts passed over"),
        (counts.n_long, "long sentences cut into pieces"),
        (counts.n_undecodable, "sequences of bytes that are not UTF-8, read as U+FFFD"),
    ]
    parts = [f"Read {counts.n_tokens:,} tokens in {counts.n_sentences:,} sentences"]
    return "; ".join(parts + [f"{n:,} {what}" for n, what in peculiar if n])


def _find_files(place: str, tell: Tell) -> List[Path]:
    path = Path(place)
    if path == STDIN or (path.exists() and not path.is_dir()):
        return [path]
    if path.is_dir():
        found = _search_folder(path, tell)
    else:
        found = [file for file in map(Path, glob(place, recursive=True)) if file.is_file()]
    if not found:
        suffixes = ", ".join([*SUFFIXES, *COMPRESSED])
        raise ValueError(Errors.EL133.format(path=place, suffixes=suffixes))
    return sorted(found, key=lambda file: file.parts)


def _search_folder(folder: Path, tell: Tell) -> List[Path]:
    """Hidden files are not looked at; others that are no text by their suffix are told."""
    files = [file for file in folder.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(folder))]
    found = [file for file in files if _kind_of(file) is not None]
    left_out = sorted(str(file.relative_to(folder)) for file in set(files) - set(found))
    if found and left_out:
        tell(f"Left out of '{folder}', since the suffix is that of no text (name them to read them): {_name_some(left_out)}")
    return found


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _name_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def _kind_of(file: Path) -> Optional[str]:
    """The format that a suffix says; a compressed file without another suffix is text."""
    if file.suffix not in COMPRESSED:
        return SUFFIXES.get(file.suffix)
    inner = file.with_suffix("").suffix
    return SUFFIXES.get(inner) if inner else "text"


def _make_shard(path: Path, format: str, cutter: SentenceCutter) -> Shard:
    kind = format if format != "auto" else _kind_of(path) or "text"
    if kind == "docbin":
        return DocBinShard(path, cutter)
    if kind == "jsonl":
        return JsonShard(path, cutter)
    return TextShard(path) if cutter.is_plain else RawTextShard(path, cutter)
