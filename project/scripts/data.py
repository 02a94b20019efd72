"""The data sets: where their files are, and their conversion to spaCy's binary format."""

import shutil
from itertools import chain, groupby
from pathlib import Path
from typing import Dict, List, Tuple

import srsly
import typer
from shared import ASSETS, SPLITS, report_errors
from spacy import blank
from spacy.tokens import Doc, DocBin
from spacy.training.converters import conllu_to_docs
from spacy.util import minibatch
from spacy.vocab import Vocab
from wasabi import msg

from spacy_elmo.corpora.sources import make_source

PROJECT_DIR = Path(__file__).resolve().parent.parent
DOWNLOAD_DIR = PROJECT_DIR / "assets" / "downloaded"
# Docs of ten sentences, as from `spacy convert --n-sents 10`; shorter ones for the sample, since `spacy debug data`
# requires 100 Docs for training.
UD_SENTENCES_PER_DOC = 10
SAMPLE_SENTENCES_PER_DOC = 3
# For each split the possible paths below the folder of assets, in order of preference.
Files = Dict[str, Tuple[str, ...]]


def list_paths(folder: str, kinds: str, downloaded: str = "") -> Files:
    """folder (str), kinds (str): Of local copies. downloaded (str): Names of the files that `spacy project assets`
    downloads, of all splits.
    """
    names = dict(zip(SPLITS, ((name,) for name in downloaded.split())))
    return {split: (*names.get(split, ()), *(f"{folder}/{split}.{kind}" for kind in kinds.split())) for split in SPLITS}


WNUT17 = "wnut17/wnut17train.conll wnut17/emerging.dev.conll wnut17/emerging.test.annotated"
EWT = " ".join(f"ud_en_ewt/en_ewt-ud-{split}.conllu" for split in SPLITS)
FILES: Dict[str, Files] = {
    "sample": list_paths(str(PROJECT_DIR / "assets" / "sample"), "iob"),
    "wnut17": list_paths("ner/wnut17", "spacy iob2", WNUT17),
    "ud_en_ewt": list_paths("ud/en_ewt", "spacy conllu.gz conllu", EWT),
    "wikigold": list_paths("ner/wikigold", "spacy iob2"),
    "ncbi_disease": list_paths("ner/ncbi-disease", "spacy iob2"),
    "hwu64": list_paths("hwu64", "jsonl jsonl.gz"),
}


@report_errors("Cannot prepare the data set")
def prepare_cli(
    dataset: str = typer.Argument(..., help=f"Data set: {', '.join(FILES)}"),
    output_dir: Path = typer.Argument(..., help="Folder for train.spacy, dev.spacy and test.spacy", file_okay=False),
    assets_dir: str = ASSETS,
) -> None:
    """Convert a data set to spaCy's binary format and print its size."""
    for path, (n_docs, n_tokens) in prepare(dataset, output_dir, assets_dir).items():
        msg.good(f"{path}: {n_docs:,} docs, {n_tokens:,} tokens")


def prepare(
    name: str, output_dir: Path, assets_dir: str = "", *, files: Dict[str, Files] = FILES
) -> Dict[Path, Tuple[int, int]]:
    """Write the .spacy files of a data set; errors are those of `find_sources`.

    RETURNS (Dict[Path, Tuple[int, int]]): Number of docs and tokens by file written.
    """
    sources = find_sources(name, assets_dir, files=files)
    output_dir.mkdir(parents=True, exist_ok=True)
    targets = {split: output_dir / f"{split}.spacy" for split in SPLITS}
    return {target: _convert(sources[split], target) for split, target in targets.items()}


def find_sources(name: str, assets_dir: str = "", *, files: Dict[str, Files] = FILES) -> Dict[str, Path]:
    """RETURNS (Dict[str, Path]): The file of each split of a data set.
    RAISES (ValueError): If the data set is not known. RAISES (FileNotFoundError): If files are not there.
    """
    if name not in files:
        raise ValueError(
            f"There is no data set '{name}'. Known data sets: {', '.join(files)}. Choose one with `--vars.dataset`."
        )
    folder = Path(assets_dir).resolve() if assets_dir else DOWNLOAD_DIR
    sources = {
        split: next((folder / path for path in paths if (folder / path).is_file()), None)
        for split, paths in files[name].items()
    }
    missing = [f"{split}: {' or '.join(files[name][split])}" for split, path in sources.items() if path is None]
    if missing:
        raise FileNotFoundError(
            f"Files of the data set '{name}' are missing below '{folder}' (split: names tried): {'; '.join(missing)}. "
            f"Download wnut17 and ud_en_ewt with `python -m spacy project assets {PROJECT_DIR}`, or give the folder of "
            "local copies with `--vars.assets_dir` (`--assets-dir` of a script), absolute or relative to the project."
        )
    return {split: path for split, path in sources.items() if path is not None}


def _convert(source: Path, output_path: Path) -> Tuple[int, int]:
    """Write one file in spaCy's binary format. RETURNS (Tuple[int, int]): Number of docs and tokens."""
    if source.suffix == ".spacy":
        shutil.copyfile(source, output_path)
        docs = list(DocBin().from_disk(source).get_docs(Vocab()))
    else:
        readers = {".iob": read_sample, ".conllu": read_conllu, ".jsonl": read_texts}
        docs = readers.get(Path(source.name.removesuffix(".gz")).suffix, read_columns)(source)
        DocBin(docs=docs).to_disk(output_path)
    return len(docs), sum(len(doc) for doc in docs)


def read_columns(path: Path) -> List[Doc]:
    """Read lines of a token, a tab and its IOB2 tag, with an empty line after each sentence; one Doc per sentence."""
    vocab, docs = Vocab(), []
    for is_sentence, lines in groupby(path.read_text(encoding="utf8").split("\n"), lambda line: bool(line.strip())):
        if is_sentence:
            words, tags = zip(*(line.split("\t") for line in lines), strict=True)
            sent_starts = [True, *[False] * (len(words) - 1)]
            docs.append(Doc(vocab, words=list(words), ents=list(tags), sent_starts=sent_starts))
    return docs


def read_conllu(path: Path) -> List[Doc]:
    """Read CoNLL-U, plain or gzip, into Docs of ten sentences; a multiword token is one token with all its tags."""
    with make_source(path).open_as_text() as file:
        text = file.read().decode("utf8")
    return list(conllu_to_docs(text, n_sents=UD_SENTENCES_PER_DOC, merge_subtokens=True, no_print=True))


def read_texts(path: Path) -> List[Doc]:
    """Read JSON lines, plain or gzip, with `text` and `label` or `labels` into Docs with every label of the file."""
    nlp = blank("en")
    records = list(srsly.read_gzip_jsonl(path) if path.suffix == ".gz" else srsly.read_jsonl(path))
    labels = [[record["label"]] if "label" in record else record["labels"] for record in records]
    names = sorted(set(chain.from_iterable(labels)))
    docs = [nlp.make_doc(record["text"]) for record in records]
    for doc, own_labels in zip(docs, labels):
        doc.cats = {name: float(name in own_labels) for name in names}
    return docs


def read_sample(path: Path) -> List[Doc]:
    """Read a sentence a line, of tokens with tag and entity in IOB2 as in `light|NOUN|O`, with an empty line after each
    passage, into Docs of up to three sentences of a passage.

    RAISES (ValueError): For the first token that has not two bars.
    """
    vocab, docs = Vocab(), []
    for passage in path.read_text(encoding="utf8").split("\n\n"):
        lines = [line for line in passage.splitlines() if line and not line.startswith("# ")]
        for group in minibatch(lines, SAMPLE_SENTENCES_PER_DOC):
            sentences = [[token.split("|") for token in line.split()] for line in group]
            rows = list(chain.from_iterable(sentences))
            if wrong := [row for row in rows if len(row) != 3]:
                raise ValueError(f"'{path}' has the token '{'|'.join(wrong[0])}', which should be like 'light|NOUN|O'.")
            words, tags, ents = map(list, zip(*rows))
            sent_starts = [i == 0 for sentence in sentences for i in range(len(sentence))]
            docs.append(Doc(vocab, words=words, tags=tags, pos=tags, ents=ents, sent_starts=sent_starts))
    return docs


if __name__ == "__main__":
    typer.run(prepare_cli)
