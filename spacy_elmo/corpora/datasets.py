"""Shards from data sets of the Hugging Face `datasets` package, streamed."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional

from .. import _compat
from ..errors import Errors
from .records import count_records
from .sentences import Item, Read, SentenceCutter
from .shards import Counts, Record, Shard

PREFIX = "hf:"
# The default split.
TRAIN = "train"
# Columns tried in this order if none is named.
COLUMNS = ("tokens", "words", "text", "sentence")
# One of these files is in every folder of `save_to_disk`.
SAVED_NAMES = ("dataset_dict.json", "state.json")


def is_saved_dataset(path: Path) -> bool:
    """RETURNS (bool): Whether the folder was written by `save_to_disk`."""
    return any((path / name).is_file() for name in SAVED_NAMES)


class DatasetShard(Shard):
    """The rows of one split.

    place (str): `hf:NAME[@CONFIG][:SPLIT][:COLUMN]`, NAME a folder of `save_to_disk` or an argument of
        `load_dataset`; or such a folder. The default split is "train".
    cutter (SentenceCutter): Splits rows into sentences.
    RAISES (ValueError): EL106 if `datasets` is missing, EL141 if the data set does not exist, EL144 if it
        lacks the split.
    """

    def __init__(self, place: str, cutter: SentenceCutter) -> None:
        if not _compat.has_datasets:
            raise ValueError(Errors.EL106.format(path=place, package="datasets"))
        self.place = place
        named = place.startswith(PREFIX)
        name, split, column, *_ = [*(place.removeprefix(PREFIX).split(":") if named else [place]), "", ""]
        name = os.path.expanduser(name)
        self.name = f"{PREFIX}{Path(name).name if Path(name).is_dir() else name}:{split or TRAIN}"
        self._cutter = cutter
        self._column: Optional[str] = column or None
        self._rows = self._open(name, split)

    def read_records(self, counts: Counts, *, skip: int = 0) -> Iterator[Record]:
        """See `Shard.read_records`; a record is a row."""
        return count_records(self._cutter.records(self._read_items(skip)), counts)

    def _read_items(self, skip: int) -> Iterator[Read]:
        rows = iter(self._rows)
        if skip:
            rows = self._rows_from(skip - 1)  # one row earlier, to check that it exists
            if next(rows, None) is None:
                raise ValueError(Errors.EL109.format(name=self.name, n_items=skip))
        for row in rows:
            yield self._item_of(row), 0

    def _rows_from(self, n_rows: int) -> Iterator[Mapping[str, Any]]:
        try:
            return iter(self._rows.skip(n_rows))
        except IndexError:  # raised by a data set on disk with too few rows
            return iter(())

    def _item_of(self, row: Mapping[str, Any]) -> Item:
        columns = [self._column] if self._column else COLUMNS
        for column in columns:
            item = row.get(column)
            if isinstance(item, str) or (isinstance(item, list) and all(isinstance(word, str) for word in item)):
                return item
        if any(column in row and row[column] is None for column in columns):
            return ""  # counted as an empty record
        found = ", ".join(f"{name} ({type(value).__name__})" for name, value in row.items())
        raise ValueError(Errors.EL142.format(name=self.name, found=found, wanted=" or ".join(columns)))

    def _open(self, name: str, split: str) -> Any:
        datasets: Any = import_module("datasets")
        try:
            if is_saved_dataset(Path(name)):
                saved = datasets.load_from_disk(name)
            else:
                name, _, config = name.partition("@")
                return datasets.load_dataset(name, config or None, split=split or TRAIN, streaming=True)
        # Many error classes: network, unknown name, split or configuration, damaged files.
        except Exception as error:
            raise ValueError(Errors.EL141.format(name=self.name, reason=error)) from error
        return _choose_split(saved, split, self.name)


def _choose_split(saved: Any, split: str, name: str) -> Any:
    """A saved folder has several splits, or a single one, whose name may differ from "train". Otherwise EL144."""
    if not isinstance(saved, dict):
        if split not in ("", TRAIN, str(saved.split)):
            raise ValueError(Errors.EL144.format(name=name, split=split, found=saved.split))
        return saved
    if (split or TRAIN) not in saved:
        raise ValueError(Errors.EL144.format(name=name, split=split or TRAIN, found=", ".join(saved)))
    return saved[split or TRAIN]
