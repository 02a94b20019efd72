"""Sentiment: is a sentence of a film review positive (one category); which emotions does a comment show (several).

A spaCy pipeline, trained by spaCy from a config of `elmo init-config`, with overrides. A BiLSTM reads word
features; ELMo is at its input and at its output, as in Peters et al. (2018, sec. 3.3), and the maximum and the mean of
the vectors are classified. The paper has SST-5, whose sentences are these film reviews with finer categories.
Differs: no attention between the sentence and itself (BCN of McCann et al. 2017), learned word features in place of
GloVe.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import spacy
import torch
from _common import compare, load_elmo, make_parser
from _records import Field, Reader, read_all
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from thinc.api import Config

from spacy_elmo.pipeline.starter_config import make_pipeline_config

BATCH_TOKENS = 500


class Text(NamedTuple):
    """What is classified, and its categories."""

    text: str
    labels: Tuple[str, ...]


def read_sentence(line: Field) -> List[Text]:
    """RETURNS (List[Text]): One, with one category."""
    return [Text(line["text"].as_text(), (line["label"].as_text(),))]


def read_comment(line: Field) -> List[Text]:
    """RETURNS (List[Text]): One, with one category or more."""
    return [Text(line["text"].as_text(), line["labels"].as_words())]


class Task(NamedTuple):
    """A data set and what is special about it: its lines, overrides of the config, and the score on the test part."""

    folder: str
    read: Reader
    overrides: Dict[str, Any]
    score: str  # key in the scores of spaCy
    score_name: str


TASKS = {
    # For exclusive categories, micro-averaged F1 equals accuracy.
    "sentence-polarity": Task("sentiment/sentence-polarity", read_sentence, {}, "cats_micro_f", "accuracy"),
    "goemotions": Task(
        "goemotions",
        read_comment,
        {
            "components.textcat.factory": "textcat_multilabel",
            "components.textcat.scorer.@scorers": "spacy.textcat_multilabel_scorer.v2",
            "components.textcat.model.exclusive_classes": False,
            # Most of the 28 categories are rare, so that few of their probabilities reach 0.5.
            "components.textcat.threshold": 0.3,
        },
        "cats_macro_f",
        "macro-F1",
    ),
}

# For both tasks.
OVERRIDES: Dict[str, Any] = {
    # The best pipeline has the highest macro-F1 on the development part.
    "training.score_weights.cats_score": 0.0,
    "training.score_weights.cats_macro_f": 1.0,
    # Batches of the same size from the start.
    "training.batcher.size.start": BATCH_TOKENS,
    "training.batcher.size.stop": BATCH_TOKENS,
}

# The layers of a frozen biLM are the same in every epoch: cached on disk, in float16 to halve the space.
ELMO_OVERRIDES: Dict[str, Any] = {
    "components.elmo.model.layer_cache_mb": 4096.0,
    "components.elmo.model.layer_cache_dtype": "float16",
}


def make_config(
    task: Task, *, with_elmo: bool, corpus: Path, n_tokens: int, bilm: str, seed: int, epochs: int
) -> Config:
    """RETURNS (Config): That of `elmo init-config` with overrides; without ELMo its blocks are removed."""
    n_steps = max(n_tokens // int(1.2 * BATCH_TOKENS), 2)  # of an epoch, at least: the batcher's tolerance is 0.2
    overrides = {
        **OVERRIDES,
        **ELMO_OVERRIDES,
        **task.overrides,
        "paths.train": str(corpus / "train.spacy"),
        "paths.dev": str(corpus / "dev.spacy"),
        "paths.bilm": bilm,
        "system.seed": seed,
        "training.max_epochs": epochs,
        "training.eval_frequency": n_steps // 2,
        "training.patience": 2 * n_steps,
    }
    text = make_pipeline_config(pipeline="textcat", placement="both")
    config = Config().from_str(text, overrides=overrides, interpolate=False)
    return config if with_elmo else remove_elmo(config)


def remove_elmo(config: Config) -> Config:
    """RETURNS (Config): The same network with spaCy's `tok2vec`: word features and encoder, and no ELMo beside them."""
    config = config.copy()
    config["nlp"]["pipeline"] = ["textcat"]
    del config["components"]["elmo"], config["initialize"]["components"]["elmo"]
    tok2vec = config["components"]["textcat"]["model"]["tok2vec"]
    config["components"]["textcat"]["model"]["tok2vec"] = {
        "@architectures": "spacy.Tok2Vec.v2",
        "embed": tok2vec["embed"],
        # Dropout of the encoder's input, as in ElmoTaskEncoder.
        "encode": {
            "@layers": "chain.v1",
            "*": {"dropout": {"@layers": "Dropout.v1"}, "encode": tok2vec["encode"]},
        },
    }
    return config


def find_labels(texts: Mapping[str, Sequence[Text]], folder: str) -> List[str]:
    """RETURNS (List[str]): The categories of the training part.
    RAISES (SystemExit): If there are fewer than two, or if a text of another part has none of them.
    """
    labels = sorted({label for text in texts["train"] for label in text.labels})
    remedy = "raise --limit, lower --every, or check --data"
    if len(labels) < 2:
        raise SystemExit(f"The part 'train' of '{folder}' has {len(labels)} categories, not two or more: {remedy}")
    for name, part in texts.items():
        for text in part:
            if not set(text.labels) & set(labels):
                told = f"The part '{name}' of '{folder}' has a text of {', '.join(text.labels)}, the part 'train' none"
                raise SystemExit(f"{told}: {remedy}")
    return labels


def make_doc(nlp: Language, text: Text, labels: Sequence[str]) -> Doc:
    """RETURNS (Doc): The text, and 1.0 or 0.0 for each category."""
    doc = nlp.make_doc(text.text)
    doc.cats = {label: float(label in text.labels) for label in labels}
    return doc


def write_corpus(task: Task, texts: Mapping[str, Sequence[Text]], folder: Path) -> int:
    """Write all parts in spaCy's format, with the categories of the training part. RETURNS (int): Tokens in it."""
    nlp, labels = spacy.blank("en"), find_labels(texts, task.folder)
    docs = {name: [make_doc(nlp, text, labels) for text in part] for name, part in texts.items()}
    for name, part in docs.items():
        DocBin(docs=part).to_disk(folder / f"{name}.spacy")
    print(f"{task.folder}: {len(docs['train'])} texts, {len(labels)} categories", flush=True)
    return sum(len(doc) for doc in docs["train"])


def train_pipeline(config: Config, folder: Path) -> Language:
    """Train as `python -m spacy train` does, with a table row per evaluation. RETURNS (Language): The best pipeline."""
    folder.mkdir(exist_ok=True)
    start = time.process_time()
    nlp = init_nlp(config)
    train(nlp, folder, stdout=sys.stdout, stderr=sys.stderr)
    print(f"  {(time.process_time() - start) / 60:.1f} CPU minutes", flush=True)
    return spacy.load(folder / "model-best")


def score_task(name: str, texts: Mapping[str, Sequence[Text]], arguments: argparse.Namespace, folder: Path) -> None:
    """Write the data in spaCy's format once, train both conditions. folder (Path): For the data and the pipelines."""
    task = TASKS[name]
    n_tokens = write_corpus(task, texts, folder)

    def run(with_elmo: bool) -> Dict[str, float]:
        config = make_config(
            task,
            with_elmo=with_elmo,
            corpus=folder,
            n_tokens=n_tokens,
            bilm=arguments.bilm,
            seed=torch.initial_seed(),  # which `compare` has set
            epochs=arguments.epochs,
        )
        nlp = train_pipeline(config, folder / "pipeline")
        scores = nlp.evaluate(list(Corpus(folder / "test.spacy")(nlp)))
        return {f"{task.score_name}, {name}": 100 * scores[task.score]}

    compare(arguments, run)


def main() -> None:
    """Train and compare both conditions on each task."""
    parser = make_parser("Text categories with and without ELMo, by spaCy", ".", epochs=6, every=1)
    parser.add_argument("--task", choices=list(TASKS), default=None, help="train this one only")
    arguments = parser.parse_args()
    wanted = {TASKS[name].folder: name for name in ([arguments.task] if arguments.task else TASKS)}
    readers = {folder: TASKS[name].read for folder, name in wanted.items()}
    found = read_all(arguments, readers, "texts", arguments.every)
    if not arguments.without_elmo:
        load_elmo(arguments.bilm)  # a wrong one ends here
    for folder, texts in found.items():  # mistakes in any of them end here
        find_labels(texts, folder)
    for folder, texts in found.items():
        with tempfile.TemporaryDirectory() as output:
            score_task(wanted[folder], texts, arguments, Path(output))


if __name__ == "__main__":
    main()
