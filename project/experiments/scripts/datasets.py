"""The data sets of the experiments, those of the example included, parts of them, and raw text.

`prepare` writes .spacy files; `check` names all files that are missing; `hwu64` divides the texts of Liu et al. (2019).
"""

import csv
import random
import sys
from collections import Counter
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence

import srsly
import typer
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab
from wasabi import msg

from spacy_elmo.corpora.shards import find_shards, read_shards

sys.path.append(str(Path(__file__).parents[2] / "scripts"))  # of the example: data.py, shared.py
import data
from shared import ASSETS, SPLITS, report_errors

# Fold 1 of NLU-Evaluation-Data, below a clone of https://github.com/xliuhw/NLU-Evaluation-Data.
HWU64_FOLD = "CrossValidation/autoGeneFromRealAnno/autoGene_2018_03_22-13_01_25_169/CrossValidation/KFold_1"
HWU64_DEV_SHARE = 10  # percent of the fold's training texts
N_FREQUENT = 8  # categories of goemotions8
BLOCK = 100  # sentences of raw text, of which a share takes the first ones
# Treebanks of the grid, and data sets that are made of others.
TREEBANKS = ("af_afribooms", "hy_bsut", "tr_framenet", "vi_vtb", "fr_sequoia")
PARTS = {**{f"{name}_spans": name for name in ("wnut17", "wikigold", "ncbi_disease")}, "goemotions8": "goemotions"}
# Their authors give no parts (Pang & Lee 2005: ten-fold cross-validation): each seed but 0 has parts of its own.
UNDIVIDED = ("sentiment",)
FILES: Dict[str, data.Files] = {
    **data.FILES,
    "ru_taiga": data.list_paths("ud/ru_taiga-r2.7", "spacy conllu.gz conllu"),
    **{name: data.list_paths(f"ud/{name}", "spacy conllu.gz conllu") for name in TREEBANKS},
    "goemotions": data.list_paths("goemotions", "jsonl.gz"),
    "sentiment": data.list_paths("sentiment/sentence-polarity", "jsonl.gz"),
    # Read as they are, by layers.py and contexts.py.
    "semcor": {split: (f"wsd/semcor-noad-{split}.jsonl.gz",) for split in ("train", "test")},
    "contexts": {
        "documents": ("lm-english/documents.tsv.gz",),
        "valid": ("lm-english/valid.txt.gz",),
        **{split: (f"ud/en_ewt/{split}.spacy",) for split in ("train", "dev")},
    },
}
FILES |= {name: FILES[whole] for name, whole in PARTS.items()}
find_sources = partial(data.find_sources, files=FILES)
app = typer.Typer(add_completion=False, help=__doc__)


@app.command("prepare")
@report_errors("Cannot prepare the data set")
def prepare_cli(dataset: str, output_dir: Path, assets_dir: str = ASSETS) -> None:
    """Convert a data set to spaCy's binary format."""
    prepare(dataset, output_dir, assets_dir)


@app.command("check")
@report_errors("Data is missing")
def check_cli(
    names: List[str] = typer.Argument(..., help=f"Data sets: {', '.join(FILES)}"),
    assets_dir: str = ASSETS,
    raw_text: Optional[str] = typer.Option(None, "--raw-text", "-t", help="Tokenized text that is needed, too"),
) -> None:
    """Look for the files of all data sets, before hours of training, and name all that are missing."""
    problems = []
    for name in [*names, *([] if raw_text is None else [None])]:
        try:
            find_sources(name, assets_dir) if name else next(read_sentences([str(raw_text)]))
        except (ValueError, OSError) as e:
            problems.append(str(e))
    if problems:
        raise FileNotFoundError("\n".join(problems))
    msg.good(f"The data is there: {', '.join(names)}")


@app.command("hwu64")
@report_errors("Cannot divide the data")
def hwu64_cli(
    clone: Path = typer.Argument(..., help="Clone of https://github.com/xliuhw/NLU-Evaluation-Data", exists=True),
    output_dir: Path = typer.Argument(..., help="Folder for {train,dev,test}.jsonl", file_okay=False),
) -> None:
    """Write the 64 intents of fold 1 as JSON lines, a tenth of its training texts for development."""
    train, test = (
        [
            {"text": row["answer_from_anno"], "label": path.stem}
            for path in sorted((clone / HWU64_FOLD / folder).glob("*.csv"))
            for row in csv.DictReader(path.read_text(encoding="utf8").splitlines(), delimiter=";")
        ]
        for folder in ("trainset", "testset/csv")
    )
    random.Random(0).shuffle(train)
    n_dev = len(train) * HWU64_DEV_SHARE // 100
    output_dir.mkdir(parents=True, exist_ok=True)
    for split, texts in zip(SPLITS, (train[n_dev:], train[:n_dev], test)):
        srsly.write_jsonl(output_dir / f"{split}.jsonl", texts)
        msg.good(f"{output_dir / split}.jsonl: {len(texts):,} texts")


def prepare(name: str, output_dir: Path, assets_dir: str = "") -> List[Path]:
    """Write the .spacy files of a data set. "<name>_spans" has the entities as spans, too; "goemotions8" has the texts
    with a single category that is one of the most frequent ones.

    RETURNS (List[Path]): The files.
    """
    paths = list(data.prepare(name, output_dir, assets_dir, files=FILES))
    if name not in PARTS:
        return paths
    splits = [list(DocBin().from_disk(path).get_docs(Vocab())) for path in paths]
    if name == "goemotions8":
        splits = _keep_frequent(splits)
    else:
        for doc in chain.from_iterable(splits):
            doc.spans["sc"] = list(doc.ents)
    for path, docs in zip(paths, splits):
        DocBin(docs=docs).to_disk(path)
    return paths


def divide(corpus_dir: Path, output_dir: Path, seed: int) -> Path:
    """Write the docs of all parts of a data set as other parts, as large as those.

    RETURNS (Path): Their folder.
    """
    parts = [list(DocBin().from_disk(corpus_dir / f"{split}.spacy").get_docs(Vocab())) for split in SPLITS]
    docs = list(chain.from_iterable(parts))
    random.Random(seed).shuffle(docs)
    output_dir.mkdir(parents=True, exist_ok=True)
    for split, part in zip(SPLITS, parts):
        DocBin(docs=docs[: len(part)]).to_disk(output_dir / f"{split}.spacy")
        docs = docs[len(part) :]
    return output_dir


def _keep_frequent(splits: List[List[Doc]]) -> List[List[Doc]]:
    """splits (List[List[Doc]]): Training docs first."""
    splits = [[doc for doc in docs if sum(doc.cats.values()) == 1] for docs in splits]
    counts = Counter(label for doc in splits[0] for label, value in doc.cats.items() if value)
    labels = sorted(label for label, _ in counts.most_common(N_FREQUENT))
    splits = [[doc for doc in docs if any(doc.cats[label] for label in labels)] for docs in splits]
    for doc in chain.from_iterable(splits):
        doc.cats = {label: doc.cats[label] for label in labels}
    return splits


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


if __name__ == "__main__":
    app()
