"""The data sets of this project: where their files are, and their conversion to spaCy's binary format.

`prepare` writes one .spacy file for train, dev and test; `check` names all files that are missing.
"""

import csv
import random
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import srsly
import typer
from shared import ASSETS, SPLITS, report_errors
from spacy import blank
from spacy.tokens import Doc, DocBin
from spacy.training.converters import conllu_to_docs
from spacy.vocab import Vocab
from wasabi import msg

from spacy_elmo.corpora.lines import decode_line
from spacy_elmo.corpora.records import parse_json_text, stream_json
from spacy_elmo.corpora.shards import find_shards, read_shards
from spacy_elmo.corpora.sources import make_source

PROJECT_DIR = Path(__file__).resolve().parent.parent
DOWNLOAD_DIR = PROJECT_DIR / "assets" / "downloaded"
# Docs of ten sentences, as from `spacy convert --n-sents 10`; shorter ones for the sample, since `spacy debug data`
# requires 100 Docs for training.
UD_SENTENCES_PER_DOC = 10
SAMPLE_SENTENCES_PER_DOC = 3
# Fold 1 of NLU-Evaluation-Data, below a clone of https://github.com/xliuhw/NLU-Evaluation-Data.
HWU64_FOLD = "CrossValidation/autoGeneFromRealAnno/autoGene_2018_03_22-13_01_25_169/CrossValidation/KFold_1"
HWU64_DEV_SHARE = 10  # percent of the fold's training part
BLOCK = 100  # sentences of raw text, of which a share takes the first ones
# The universal POS tags (de Marneffe et al. 2021).
UPOS_TAGS = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split()
ENTITY_LABELS = ["PERSON", "LOC", "ORG", "MISC"]
TOPIC_PREFIX = "# topic:"
SENTENCE = "a token, a slash and its tag, as in 'light/NOUN', and entities as in '[LOC New/PROPN York/PROPN]'"
# A passage of the sample is a list of sentences, a sentence of (token, universal POS tag, entity tag in IOB2).
Row = Tuple[str, str, str]
Passage = List[List[Row]]
Files = Dict[str, Tuple[str, ...]]


@dataclass(frozen=True)
class Dataset:
    """A data set of `DATASETS`.

    pipeline (str): Part of the name of the config file: configs/elmo_<pipeline>.cfg.
    files (Files): For each split the possible paths below the assets folder, in order of preference.
    is_ours (bool): Whether its text is part of this repository.
    is_downloaded (bool): Whether `spacy project assets` downloads it; others are read from local copies only.
    """

    pipeline: str
    files: Files
    is_ours: bool = False
    is_downloaded: bool = False


def _local_ner(folder: str) -> Files:
    return {split: (f"ner/{folder}/{split}.spacy", f"ner/{folder}/{split}.iob2") for split in SPLITS}


def _local_ud(folder: str) -> Files:
    kinds = ("spacy", "conllu.gz", "conllu")
    return {split: tuple(f"ud/{folder}/{split}.{kind}" for kind in kinds) for split in SPLITS}


WNUT17 = dict(zip(SPLITS, ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated")))
DATASETS = {
    "sample": Dataset("tagger_ner", {split: (f"{split}.txt",) for split in SPLITS}, is_ours=True),
    "wnut17": Dataset(
        "ner",
        {split: (f"wnut17/{WNUT17[split]}", *paths) for split, paths in _local_ner("wnut17").items()},
        is_downloaded=True,
    ),
    "ud_en_ewt": Dataset(
        "tagger_morphologizer",
        {split: (f"ud_en_ewt/en_ewt-ud-{split}.conllu", *paths) for split, paths in _local_ud("en_ewt").items()},
        is_downloaded=True,
    ),
    "wikigold": Dataset("ner", _local_ner("wikigold")),
    "ncbi_disease": Dataset("ner", _local_ner("ncbi-disease")),
    "fr_sequoia": Dataset("morphologizer", _local_ud("fr_sequoia")),
    "ru_taiga": Dataset("morphologizer", _local_ud("ru_taiga-r2.7")),
    "goemotions": Dataset("textcat_multilabel", {split: (f"goemotions/{split}.jsonl.gz",) for split in SPLITS}),
    "hwu64": Dataset("textcat", {split: (f"hwu64/{split}.jsonl", f"hwu64/{split}.jsonl.gz") for split in SPLITS}),
}
FILES: Dict[str, Files] = {
    **{name: dataset.files for name, dataset in DATASETS.items()},
    # Read as they are, by layers.py and contexts.py; local copies only.
    "semcor": {split: (f"wsd/semcor-noad-{split}.jsonl.gz",) for split in ("train", "test")},
    "contexts": {
        "documents": ("lm-english/documents.tsv.gz",),
        "valid": ("lm-english/valid.txt.gz",),
        **{split: (f"ud/en_ewt/{split}.spacy",) for split in ("train", "dev")},
    },
}
app = typer.Typer(add_completion=False, help=__doc__)


@app.command("prepare")
@report_errors("Cannot prepare the data set")
def prepare_cli(
    # fmt: off
    dataset: str = typer.Argument(..., help=f"Data set: {', '.join(DATASETS)}"),
    output_dir: Path = typer.Argument(..., help="Folder for train.spacy, dev.spacy and test.spacy", file_okay=False),
    assets_dir: str = ASSETS,
    # fmt: on
) -> None:
    """Convert a data set to spaCy's binary format and print its size."""
    for path, (n_docs, n_tokens) in prepare(dataset, output_dir, assets_dir).items():
        msg.good(f"{path}: {n_docs:,} docs, {n_tokens:,} tokens")


@app.command("check")
@report_errors("Data is missing")
def check_cli(
    # fmt: off
    names: List[str] = typer.Argument(..., help=f"Data sets: {', '.join(FILES)}"),
    assets_dir: str = ASSETS,
    raw_text: Optional[str] = typer.Option(None, "--raw-text", "-t", help="Tokenized text that is needed, too"),
    # fmt: on
) -> None:
    """Look for the files of all data sets, before hours of training, and name all that are missing."""
    looks: List[Callable[[], object]] = [partial(find_sources, name, assets_dir) for name in names]
    if raw_text is not None:
        looks.append(lambda: next(read_sentences([raw_text])))
    problems = []
    for look in looks:
        try:
            look()
        except (ValueError, OSError) as e:
            problems.append(str(e))
    if problems:
        raise FileNotFoundError("\n".join(problems))
    msg.good(f"The data is there: {', '.join(names)}")


@app.command("hwu64")
@report_errors("Cannot divide the data")
def hwu64_cli(
    # fmt: off
    clone: Path = typer.Argument(..., help="Clone of https://github.com/xliuhw/NLU-Evaluation-Data"),
    output_dir: Path = typer.Argument(..., help="Folder for {train,dev,test}.jsonl", file_okay=False),
    # fmt: on
) -> None:
    """Write the 64 intents of Liu et al. (2019) as JSON lines: fold 1, a tenth of its training part for development."""
    texts = {}
    for split in ("train", "test"):
        paths = sorted((clone / HWU64_FOLD / {"train": "trainset", "test": "testset/csv"}[split]).glob("*.csv"))
        if not paths:
            raise FileNotFoundError(f"There is no '{HWU64_FOLD}/{split}set' in '{clone}'. Give a clone of the data.")
        texts[split] = [
            {"text": row["answer_from_anno"], "label": path.stem}
            for path in paths
            for row in csv.DictReader(path.read_text(encoding="utf8").splitlines(), delimiter=";")
        ]
    random.Random(0).shuffle(texts["train"])
    n_dev = len(texts["train"]) * HWU64_DEV_SHARE // 100
    output_dir.mkdir(parents=True, exist_ok=True)
    parts = {"train": texts["train"][n_dev:], "dev": texts["train"][:n_dev], "test": texts["test"]}
    for split, part in parts.items():
        srsly.write_jsonl(output_dir / f"{split}.jsonl", part)
        msg.good(f"{output_dir / split}.jsonl: {len(part):,} texts")


def prepare(name: str, output_dir: Path, assets_dir: str = "") -> Dict[Path, Tuple[int, int]]:
    """Write the .spacy files of a data set; errors are those of `find_sources`.

    RETURNS (Dict[Path, Tuple[int, int]]): Number of docs and tokens by file written.
    """
    sources = find_sources(name, assets_dir, known=tuple(DATASETS))
    output_dir.mkdir(parents=True, exist_ok=True)
    targets = {split: output_dir / f"{split}.spacy" for split in SPLITS}
    return {target: _convert(sources[split], target) for split, target in targets.items()}


def find_sources(name: str, assets_dir: str = "", *, known: Sequence[str] = tuple(FILES)) -> Dict[str, Path]:
    """RETURNS (Dict[str, Path]): The file of each split of a data set, in a folder that is relative to the project's.
    RAISES (ValueError): If the data set is not known. RAISES (FileNotFoundError): If the folder or files are not there.
    """
    if name not in known:
        raise ValueError(
            f"There is no data set '{name}'. Known data sets: {', '.join(known)}. Choose one with `--vars.dataset`."
        )
    folder = (PROJECT_DIR / assets_dir).resolve() if assets_dir else DOWNLOAD_DIR
    if assets_dir and not folder.is_dir():
        beside = (PROJECT_DIR.parent / assets_dir).resolve()
        hint = f" Did you mean '../{assets_dir}' ({beside})?" if beside.is_dir() else ""
        raise FileNotFoundError(
            f"The folder of local assets '{assets_dir}' does not exist: it resolves to '{folder}'. A relative path "
            f"starts at '{PROJECT_DIR}'.{hint} {_remedy(name)}"
        )
    if name in DATASETS and DATASETS[name].is_ours:
        folder = PROJECT_DIR / "assets" / name
    found, missing = {}, []
    for split, names in FILES[name].items():
        paths = [folder / path for path in names if (folder / path).is_file()]
        if paths:
            found[split] = paths[0]
        else:
            missing.append(f"{split}: {' or '.join(names)}")
    if missing:
        raise FileNotFoundError(
            f"Files of the data set '{name}' are missing below '{folder}' (split: names tried): {'; '.join(missing)}. "
            f"{_remedy(name)}"
        )
    return found


def _remedy(name: str) -> str:
    """RETURNS (str): Where the files of a data set come from."""
    dataset = DATASETS.get(name)
    if dataset is not None and dataset.is_ours:
        return "This data set is part of the repository: restore its files, and leave `--vars.assets_dir` out."
    folder = "the folder of local copies with `--vars.assets_dir` (`--assets-dir` of a script)"
    if dataset is not None and dataset.is_downloaded:
        return f"Download the data set with `python -m spacy project assets {PROJECT_DIR}`, or give {folder}."
    return f"This data set is not downloaded: give {folder}. {PROJECT_DIR}/README.md has its layout."


def read_sentences(texts: Sequence[str], share: int = 100) -> Iterator[List[str]]:
    """YIELDS (List[str]): The tokens of a sentence of tokenized text, of every 100 sentences the first `share`.
    RAISES (ValueError): If there is no sentence, or an error of the package for a place without texts.
    """
    n_read = 0
    if all(texts):  # an empty path would be the current folder
        for position, tokens in enumerate(read_shards(find_shards(list(texts)))):
            if position % BLOCK < share:
                n_read += 1
                yield tokens
    if not n_read:
        raise ValueError(
            f"There is no sentence in {', '.join(map(repr, texts))}. Give tokenized text, one sentence per line; in "
            "the project with `--vars.raw_text`."
        )


def _convert(source: Path, output_path: Path) -> Tuple[int, int]:
    """Write one file in spaCy's binary format. RETURNS (Tuple[int, int]): Number of docs and tokens."""
    if source.suffix == ".spacy":
        shutil.copyfile(source, output_path)
        docs = list(DocBin().from_disk(source).get_docs(Vocab()))
    else:
        readers = {".txt": read_sample, ".conllu": read_conllu, ".jsonl": read_texts}
        docs = readers.get(Path(source.name.removesuffix(".gz")).suffix, read_columns)(source)
        DocBin(docs=docs).to_disk(output_path)
    return len(docs), sum(len(doc) for doc in docs)


def read_columns(path: Path) -> List[Doc]:
    """Read lines of a token, a tab and its IOB2 tag, with an empty line after each sentence; one Doc per sentence."""
    vocab, docs = Vocab(), []
    rows: List[List[str]] = []
    for line in [*path.read_text(encoding="utf8").split("\n"), ""]:
        if line.strip():
            rows.append(line.split("\t"))
        elif rows:
            words, tags = zip(*rows, strict=True)
            sent_starts = [i == 0 for i in range(len(words))]
            docs.append(Doc(vocab, words=list(words), ents=list(tags), sent_starts=sent_starts))
            rows = []
    return docs


def read_conllu(path: Path) -> List[Doc]:
    """Read CoNLL-U, plain or gzip, into Docs of ten sentences; a multiword token is one token with all its tags."""
    with make_source(path).open_as_text() as file:
        text = file.read().decode("utf8")
    return list(conllu_to_docs(text, n_sents=UD_SENTENCES_PER_DOC, merge_subtokens=True, no_print=True))


def read_texts(path: Path) -> List[Doc]:
    """Read JSON lines with `text` and `label` or `labels` into Docs with every label of the file."""
    nlp, docs = blank("en"), []
    with make_source(path).open_as_text() as file:
        for where, line in stream_json(file, path):
            if not line.strip():
                continue
            text, _, record = parse_json_text(decode_line(line)[0], where)
            labels = [record["label"]] if "label" in record else record.get("labels")
            if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
                raise ValueError(
                    f"Line {where} has the labels {labels!r}, but should have a list of strings 'labels'. Correct the "
                    "line, or get the file again."
                )
            docs.append(nlp.make_doc(text))
            docs[-1].cats = dict.fromkeys(labels, 1.0)
    names = sorted({label for doc in docs for label in doc.cats})
    for doc in docs:
        doc.cats = {label: doc.cats.get(label, 0.0) for label in names}
    return docs


def read_sample(path: Path) -> List[Doc]:
    """Read a file of the sample into Docs of up to three sentences of the same passage."""
    vocab, docs = Vocab(), []
    for passage in read_passages(path):
        words, tags, ents = (list(column) for column in zip(*(row for rows in passage for row in rows)))
        sent_starts = [i == 0 for rows in passage for i in range(len(rows))]
        doc = Doc(vocab, words=words, tags=tags, pos=tags, ents=ents, sent_starts=sent_starts)
        sents = list(doc.sents)
        for start in range(0, len(sents), SAMPLE_SENTENCES_PER_DOC):
            part = sents[start : start + SAMPLE_SENTENCES_PER_DOC]
            docs.append(doc[part[0].start : part[-1].end].as_doc())
    return docs


def read_passages(path: Path) -> List[Passage]:
    """Read a file of the sample: `[LOC New/PROPN York/PROPN] sleeps/VERB ./PUNCT` is a sentence, `# topic:` starts a
    passage. assets/sample/README.md describes the format.

    RAISES (ValueError): For the first line that is not in the format.
    """
    passages: List[Passage] = []
    for number, line in enumerate(path.read_text(encoding="utf8").splitlines(), start=1):
        if line.startswith(TOPIC_PREFIX):
            passages.append([])
        elif line.strip() and not line.startswith("# "):
            try:
                if not passages:
                    raise ValueError(f"'{line[:30]}' before the first line '{TOPIC_PREFIX} ...'")
                passages[-1].append(_parse_sentence(line))
            except ValueError as e:
                raise ValueError(
                    f"'{path}', line {number}: found {e}, wanted {SENTENCE}. Tags: {', '.join(UPOS_TAGS)}; labels: "
                    f"{', '.join(ENTITY_LABELS)}. Correct the line; assets/sample/README.md describes the format."
                ) from e
    return [passage for passage in passages if passage]


def _parse_sentence(line: str) -> List[Row]:
    """RAISES (ValueError): With the first item that is none."""
    rows: List[Row] = []
    label, iob = "", "O"  # label of the current entity, tag of the next token
    for item in line.split():
        if not label and item[0] == "[" and item[1:] in ENTITY_LABELS:
            label, iob = item[1:], f"B-{item[1:]}"
            continue
        word, _, tag = item.rpartition("/")
        is_last = bool(label) and tag.endswith("]")
        tag = tag[:-1] if is_last else tag
        if not word or tag not in UPOS_TAGS:
            raise ValueError(f"'{item}'")
        rows.append((word, tag, iob))
        label, iob = ("", "O") if is_last else (label, f"I-{label}" if label else "O")
    if label:
        raise ValueError(f"the entity '[{label}' without ']' after its last token")
    return rows


if __name__ == "__main__":
    app()
