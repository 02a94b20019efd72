"""Rows of Parquet files: their text, further columns, and the vectors of `elmo embed`."""

from typing import Any, Dict, Generator, List, Optional, Sequence, Tuple

from numpy.typing import NDArray

from .sources import Source, import_arrow

PARQUET_ROWS = 1000  # read at a time


class ParquetRow(Dict[str, Any]):
    """Columns of a row of Parquet.

    vectors (Optional[NDArray]): Shape (T, D), of the tokens that are not blank.
    """

    vectors: Optional[NDArray[Any]] = None


def read_parquet(
    source: Source, keep: Optional[Sequence[str]] = (), vectors: Optional[str] = None
) -> Generator[Tuple[str, Tuple[Any, ParquetRow]], None, None]:
    """Stream the rows of a Parquet file.

    source (Source): Its column `words` or `tokens` (lists of strings or of objects, see `to_item`) or `text` is read.
    keep (Optional[Sequence[str]]): Further columns; None for all but lists, such as vectors.
    vectors (Optional[str]): A column with a vector per token, as `elmo embed` writes it.
    YIELDS (Tuple[str, Tuple[Any, ParquetRow]]): The place, the text (empty for null) and the columns of a row.
    RAISES (ValueError): If it is damaged or has no column of texts or of lists of them; if pyarrow is missing.
    """
    file = source.place
    parquet = import_arrow("pyarrow.parquet", file)
    with source.open_at_random() as content:
        try:
            table = parquet.ParquetFile(content)
            kinds = {field.name: field.type for field in table.schema_arrow}
        except Exception as error:  # pyarrow raises several kinds
            raise ValueError(f"'{file}' cannot be read as Parquet: {error}. Is it complete?") from error
        text, columns = _choose_columns(kinds, keep, file)
        n_rows = 0
        for batch in table.iter_batches(PARQUET_ROWS, columns=columns if vectors is None else [*columns, vectors]):
            arrays = _vectors_of(batch.column(vectors)) if vectors is not None else None
            for i, row in enumerate(map(ParquetRow, batch.select(columns).to_pylist())):
                n_rows += 1
                item = row[text] if row[text] is not None else ""
                if arrays is not None and isinstance(item, list):
                    row.vectors = arrays[i][[bool(word) and not word.isspace() for word in item]]
                yield f"{file}, row {n_rows}", (item, row)


def _choose_columns(kinds: Dict[str, Any], keep: Optional[Sequence[str]], file: str) -> Tuple[str, List[str]]:
    """kinds (Dict[str, Any]): Types of pyarrow by column.
    RETURNS (Tuple[str, List[str]]): The column of the texts, and all columns to read, it first.
    """
    types = import_arrow("pyarrow.types", file)
    # As in JSON, numbers are counts of words or tokens.
    counts = {name for name, kind in kinds.items() if types.is_integer(kind) or types.is_floating(kind)} - {"text"}
    text = next((name for name in ("words", "tokens", "text") if name in kinds and name not in counts), None)
    if keep is None:
        keep = [name for name, kind in kinds.items() if not types.is_nested(kind)]
    if text is None or set(keep) - set(kinds):
        raise ValueError(
            f"'{file}' has the columns {', '.join(kinds)}, should have {', '.join(['text (or words)', *keep])}. "
            "Rename the column of the texts, and keep columns that the file has."
        )
    if not _holds_texts(kinds[text], types):
        raise ValueError(
            f"The column '{text}' of '{file}' has the type {kinds[text]}, should be strings (or lists of strings). "
            "Cast it, or rename the column of the texts to `text` or `words`."
        )
    needed = ["text", "sents"] if types.is_nested(kinds[text]) and "struct" in str(kinds[text]) else []
    return text, list(dict.fromkeys([text, *(name for name in needed if name in kinds), *keep]))


def _holds_texts(kind: Any, types: Any) -> bool:
    """Whether a column has strings, lists of them, or lists of objects with a text or offsets."""

    def is_list(kind: Any) -> bool:
        return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))

    if is_list(kind):
        kind = kind.value_type
        if is_list(kind) and types.is_struct(kind.value_type):  # a list per sentence
            kind = kind.value_type
        if types.is_struct(kind):
            return not {"text", "start"}.isdisjoint(field.name for field in kind)
    elif types.is_struct(kind):  # a list of objects, as `datasets` stores it
        return any(field.name == "text" and is_list(field.type) for field in kind)
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind) or str(kind) == "string_view"


def _vectors_of(column: Any) -> List[NDArray[Any]]:
    """RETURNS (List[NDArray]): Per row of a column of lists of fixed-size lists, shape (T, D)."""
    offsets = column.offsets.to_numpy()
    flat = column.values.flatten().to_numpy(zero_copy_only=False).reshape(-1, column.type.value_type.list_size)
    return [flat[start:end] for start, end in zip(offsets, offsets[1:])]
