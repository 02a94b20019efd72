"""Convert a data set to spaCy's binary format: one .spacy file for train, dev and test."""

import gzip
import shutil
import zlib
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import srsly
import typer
from convert_sample import read_sample
from data_files import find_sources
from known_datasets import DATASETS, SPLITS, find_dataset
from messages import Messages
from spacy import blank
from spacy.tokens import Doc, DocBin
from spacy.training.converters import conllu_to_docs
from spacy.vocab import Vocab
from wasabi import msg

# Docs of ten sentences, as from `spacy convert --n-sents 10`; shorter ones for the sample, since `spacy debug data`
# requires 100 Docs for training.
UD_SENTENCES_PER_DOC = 10
SAMPLE_SENTENCES_PER_DOC = 3


def prepare_cli(
    # fmt: off
    dataset: str = typer.Argument(..., help=f"Data set: {', '.join(DATASETS)}"),
    output_dir: Path = typer.Argument(..., help="Folder for train.spacy, dev.spacy and test.spacy", file_okay=False),
    assets_dir: str = typer.Option("", "--assets-dir", "-a", help="Folder with local copies; empty for downloads"),
    # fmt: on
) -> None:
    """Convert a data set to spaCy's binary format and print its size."""
    try:
        counts = prepare(dataset, output_dir, assets_dir)
    except (ValueError, FileNotFoundError) as e:
        msg.fail(f"Cannot prepare the data set '{dataset}'", str(e), exits=1)
    for path, (n_docs, n_tokens) in counts.items():
        msg.good(f"{path}: {n_docs:,} docs, {n_tokens:,} tokens")


def prepare(name: str, output_dir: Path, assets_dir: str = "") -> Dict[Path, Tuple[int, int]]:
    """Write the .spacy files of a data set.

    RETURNS (Dict[Path, Tuple[int, int]]): Number of docs and tokens by file written.
    RAISES (ValueError): P000 if the data set is not known.
    RAISES (FileNotFoundError): P001 or P002 if its files are not there.
    """
    if find_dataset(name) is None:
        raise ValueError(Messages.P000.format(name=name, known=", ".join(DATASETS)))
    sources = find_sources(name, assets_dir)
    output_dir.mkdir(parents=True, exist_ok=True)
    targets = {split: output_dir / f"{split}.spacy" for split in SPLITS}
    return {target: convert(sources[split], target) for split, target in targets.items()}


def convert(source: Path, output_path: Path) -> Tuple[int, int]:
    """Write one file in spaCy's binary format. RETURNS (Tuple[int, int]): Number of docs and tokens."""
    if source.suffix == ".spacy":
        shutil.copyfile(source, output_path)
        docs = list(DocBin().from_disk(source).get_docs(Vocab()))
    else:
        docs = _reader(source)(source)
        DocBin(docs=docs).to_disk(output_path)
    return len(docs), sum(len(doc) for doc in docs)


def read_passages(path: Path) -> List[Doc]:
    """Read the sample into Docs of up to three sentences of the same passage."""
    return [part for doc in read_sample(path) for part in _split_doc(doc)]


def read_columns(path: Path) -> List[Doc]:
    """Read lines of a token, a tab and its IOB2 tag, with an empty line after each sentence; one Doc per sentence."""
    vocab = Vocab()
    docs = []
    for rows in _blocks(path.read_text(encoding="utf8")):
        words, tags = zip(*rows, strict=True)
        sent_starts = [i == 0 for i in range(len(words))]
        docs.append(Doc(vocab, words=list(words), ents=list(tags), sent_starts=sent_starts))
    return docs


def read_conllu(path: Path) -> List[Doc]:
    """Read CoNLL-U, plain or gzip, into Docs of ten sentences; a multiword token is one token with all its tags."""
    text = gzip.decompress(path.read_bytes()).decode("utf8") if path.suffix == ".gz" else path.read_text("utf8")
    return list(conllu_to_docs(text, n_sents=UD_SENTENCES_PER_DOC, merge_subtokens=True, no_print=True))


def read_comments(path: Path) -> List[Doc]:
    """Read gzipped JSON lines with `text` and `labels`, GoEmotions, into Docs with every label of the file.

    RAISES (ValueError): P006 for a file that is not gzip or UTF-8, P007 for a line without `text` and `labels`.
    """
    rows = [_read_comment(path, number, line) for number, line in enumerate(_gzip_lines(path), start=1) if line.strip()]
    labels = sorted({label for row in rows for label in row["labels"]})
    nlp = blank("en")
    docs = [nlp.make_doc(row["text"]) for row in rows]
    for doc, row in zip(docs, rows, strict=True):
        doc.cats = {label: float(label in row["labels"]) for label in labels}
    return docs


def _gzip_lines(path: Path) -> List[str]:
    try:
        return gzip.decompress(path.read_bytes()).decode("utf8").split("\n")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as e:
        raise ValueError(Messages.P006.format(path=path, reason=e)) from e


def _read_comment(path: Path, number: int, line: str) -> Dict[str, Any]:
    try:
        row = srsly.json_loads(line)
    except ValueError as e:
        raise ValueError(Messages.P007.format(path=path, number=number, found=f"{line[:60]!r} ({e})")) from e
    is_object = isinstance(row, dict) and isinstance(row.get("text"), str) and isinstance(row.get("labels"), list)
    if not is_object or not all(isinstance(label, str) for label in row["labels"]):
        raise ValueError(Messages.P007.format(path=path, number=number, found=repr(line[:60])))
    return dict(row)


def _reader(path: Path) -> Callable[[Path], List[Doc]]:
    readers: Dict[str, Callable[[Path], List[Doc]]] = {
        ".txt": read_passages,
        ".conllu": read_conllu,
        ".conllu.gz": read_conllu,
        ".jsonl.gz": read_comments,
    }
    suffix = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    return readers.get(suffix, read_columns)


def _split_doc(doc: Doc) -> Iterator[Doc]:
    sents = list(doc.sents)
    for i in range(0, len(sents), SAMPLE_SENTENCES_PER_DOC):
        part = sents[i : i + SAMPLE_SENTENCES_PER_DOC]
        yield doc[part[0].start : part[-1].end].as_doc()


def _blocks(text: str) -> Iterator[List[List[str]]]:
    rows: List[List[str]] = []
    for line in [*text.split("\n"), ""]:
        if line.strip():
            rows.append(line.split("\t"))
        elif rows:
            yield rows
            rows = []


if __name__ == "__main__":
    typer.run(prepare_cli)
