"""Errors of texts: files, formats, data sets, tokenizers. EL101 to EL109, EL130 to EL143."""

from .catalogue import Catalogue


class CorporaErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL101 = "The corpus has no sentences: {source}. Give text with one tokenized sentence a line."
    EL105 = (
        "[paths] {name} is {place!r}, but should name text: a file (.txt, .jsonl, .spacy; .gz, .xz or .zst), a folder "
        "of such files, a pattern such as 'corpus/*.txt.gz', or hf:NAME. Set it, for instance by --paths.{name}."
    )
    EL106 = (
        "Reading '{path}' takes the package {package}, which is not installed. Install it with "
        "`pip install {package}`, or give plain or .gz text."
    )
    EL108 = (
        "'{path}' cannot be decompressed to its end: {reason}. The file is truncated, damaged or of another kind; "
        "make or fetch it again."
    )
    EL109 = (
        "'{name}' ended before record {n_items}, up to which the stopped run had read it. Has the file changed since? "
        "Put the one back that the run was started with, or start a new run."
    )
    EL130 = "Line {where} is no JSON: {reason}. Every line of a .jsonl file is one JSON object."
    EL131 = (
        "Line {where} is '{found}', but should be a JSON object with 'text' (a string) or 'words' (a list of strings)."
    )
    EL132 = "'{path}' cannot be read as a DocBin: {reason}. A .spacy file is what `DocBin.to_disk` writes."
    EL133 = "There is nothing to read at '{path}'. Give a file, or a folder with files that end in {suffixes}."
    EL137 = (
        "There is no tokenizer for the language '{lang}': {reason} Give {option} a code that `spacy.blank` knows "
        "('en', 'de', 'xx' for any), or {instead} if the text is tokenized."
    )
    EL138 = "Line {where} is no UTF-8: {reason}. Convert the file to UTF-8, or name its format with --input-format."
    EL139 = (
        "The name {name} of a text is not UTF-8; bytes that are not are escaped here. Models and checkpoints name their "
        "texts in UTF-8: rename the file or folder."
    )
    EL141 = (
        "The data set '{name}' cannot be opened: {reason}. A data set is hf:NAME[:SPLIT][:COLUMN], NAME what "
        "`datasets.load_dataset` takes (NAME@CONFIG for one of its configurations) or a folder of `save_to_disk`."
    )
    EL142 = (
        "The data set '{name}' has no column to read: {found}. Wanted: {wanted}. Name a column of strings or of lists "
        "of strings: hf:NAME:SPLIT:COLUMN."
    )
    EL143 = "The format '{format}' is not known. Choose one of: {known}."
