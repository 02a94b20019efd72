"""Errors of texts: files, formats, data sets, tokenizers. EL101 to EL109, EL130 to EL144."""

from .catalogue import Catalogue


class CorporaErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL101 = "The corpus has no sentences: {source}. Give text with one tokenized sentence per line."
    EL105 = (
        "paths.{name} is {place!r}, but should be a text file (.txt, .jsonl, .spacy; compressed as .gz, .xz or .zst), "
        "a folder of such files, a pattern such as 'corpus/*.txt.gz', or a data set hf:NAME. Set it, for example with "
        "--paths.{name}."
    )
    EL106 = (
        "Reading '{path}' requires the package {package}, which is not installed. Install it with `pip install "
        "{package}`, or use plain or .gz text."
    )
    EL108 = (
        "'{path}' cannot be decompressed: {reason}. The file is truncated, damaged or in another format. Create or "
        "download it again."
    )
    EL109 = (
        "'{name}' ends before record {n_items}, the position in it at which the run stopped. The file has changed "
        "since then. Restore the file the run was started with, or start a new run."
    )
    EL130 = (
        "Line {where} is not valid JSON: {reason}. Correct it: a .jsonl file has one JSON object per line, or is "
        "one JSON array of objects."
    )
    EL131 = (
        "Line {where} is '{found}', but should be a JSON object with 'text' (a string) or 'words' (a list of strings). "
        "Correct the line."
    )
    EL132 = "'{path}' cannot be read as a DocBin: {reason}. Write .spacy files with `DocBin.to_disk`."
    EL133 = "There are no texts at '{path}'. Give a file, or a folder with files that end in {suffixes}."
    EL137 = (
        "There is no tokenizer for the language '{lang}': {reason} Set {option} to a language code that `spacy.blank` "
        "knows ('en', 'de', 'xx' for any language), or {instead} if the text is tokenized."
    )
    EL138 = (
        "Line {where} is not valid UTF-8: {reason}. Convert the file to UTF-8, or set its format with --input-format."
    )
    EL139 = (
        "The file name {name} is not valid UTF-8 (invalid bytes are escaped here). Models and checkpoints store the "
        "names of their texts in UTF-8. Rename the file or folder."
    )
    EL141 = (
        "The data set '{name}' cannot be opened: {reason}. Write it as hf:NAME[:SPLIT][:COLUMN], where NAME is an "
        "argument of `datasets.load_dataset` (NAME@CONFIG for one of its configurations) or a folder written by "
        "`save_to_disk`."
    )
    EL142 = (
        "The data set '{name}' has no text column: found {found}; wanted {wanted}. Name a column of strings or of "
        "lists of strings: hf:NAME:SPLIT:COLUMN."
    )
    EL144 = "The data set '{name}' has no split '{split}', only: {found}. Write hf:NAME:SPLIT with one of its splits."
    EL143 = "Unknown format '{format}'. Choose one of: {known}."
