"""Compare contexts and initial states of a biLM: perplexity, and a linear probe of UPOS on UD EWT."""

import csv
import gzip
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import spacy
import torch
import typer
from spacy.tokens import DocBin

from spacy_elmo import BiLM, load_bilm
from spacy_elmo.analysis import Score, bootstrap_accuracy
from spacy_elmo.pipeline.model import split_windows

sys.path.append(str(Path(__file__).parents[2] / "scripts"))  # of the example: data.py, shared.py
from data import find_sources
from shared import ASSETS, identify, report_errors, write_json
from stored import is_finished

# The windows of the component `elmo`.
MAX_TOKENS = 512
OVERLAP = 64
Text = List[List[str]]
Tagged = Tuple[List[Text], List[str]]
# Contexts and states of the component; "carry" goes from sentence to sentence of a Doc.
PAIRS = (("sentences", "reset"), ("sentences", "steady"), ("sentences", "carry"), ("doc", "reset"), ("doc", "steady"))


@report_errors("Cannot compare contexts")
def main(
    # fmt: off
    bilm_path: str = typer.Argument(..., help="Weights in any known format, with a softmax."),
    n_documents: int = typer.Option(150, "--documents", "-d", help="Held-out documents for perplexities."),
    threads: int = typer.Option(2, "--threads", "-t", help="Threads of torch."),
    output: Optional[Path] = typer.Option(None, "--json", "-j", help="Write the rows to this file.", dir_okay=False),
    assets_dir: str = ASSETS,
    skip_finished: bool = typer.Option(False, "--skip-finished", "-f", help="Do nothing if --json has these rows."),
    # fmt: on
) -> None:
    """Compare document with sentence contexts, and the zero state with the steady and the carried one."""
    torch.set_num_threads(threads)
    if skip_finished and output is not None and is_finished(output, bilm_path):
        print(f"{output} has the rows of these weights, skipped")
        return
    paths = find_sources("contexts", assets_dir)
    identity = {"experiment": "contexts", **identify(bilm_path)}
    bilm = load_bilm(bilm_path)
    documents = list(_documents(paths["valid"], paths["documents"]))[:n_documents]
    train, dev = _tagged(paths["train"]), _tagged(paths["dev"])
    n_tokens = sum(len(sentence) for document in documents for sentence in document)
    print(f"{len(documents)} documents, {n_tokens} tokens; EWT dev {len(dev[1])}")
    sizes = {"n_documents": len(documents), "n_tokens": n_tokens, "n_train": len(train[1]), "n_dev": len(dev[1])}
    rows = compare(bilm, documents, train, dev)
    if output is not None:
        write_json(output, {**identity, **sizes, "max_tokens": MAX_TOKENS, "rows": rows})


def compare(bilm: BiLM, documents: Sequence[Text], train: Tagged, dev: Tagged) -> List[Dict[str, Any]]:
    """Print and return a row per pair of contexts and state: forward perplexity, accuracy of the probe (0 to 1) with
    its 95 % interval (bootstrap over sentences).
    """
    print("contexts   state    forward perplexity   EWT dev UPOS (linear probe)   seconds")
    rows = []
    for contexts, state in PAIRS:
        started = time.perf_counter()
        score = _perplexity(bilm, documents, contexts, state)
        accuracy = _probe(bilm, train, dev, contexts, state)
        elapsed = time.perf_counter() - started
        print(f"{contexts:10} {state:8} {score:18.2f}   {accuracy.value:27.2%} {elapsed:9.0f}", flush=True)
        of_probe = {"accuracy": accuracy.value, "low": accuracy.low, "high": accuracy.high}
        rows.append({"contexts": contexts, "state": state, "perplexity": score, **of_probe})
    return rows


def _documents(held_out: Path, lines_of_documents: Path) -> Iterator[Text]:
    """Documents of the held-out text, each a list of sentences."""
    with gzip.open(held_out, "rt", encoding="utf8") as text:
        lines = [line.split() for line in text]
    with gzip.open(lines_of_documents, "rt", encoding="utf8", newline="") as table:
        for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["shard"].startswith("valid"):
                first = int(row["first_line"])
                yield lines[first : first + int(row["lines"])]


def _runs(document: Text, contexts: str) -> List[Tuple[List[str], int, int]]:
    """Sequences, each with the slice to score."""
    if contexts == "sentences":
        return [(sentence, 0, len(sentence)) for sentence in document]
    words = [word for sentence in document for word in sentence]
    return [
        (words[w.start : w.end], w.keep_start - w.start, w.keep_end - w.start)
        for w in split_windows(len(words), MAX_TOKENS, OVERLAP)
    ]


def _perplexity(bilm: BiLM, documents: Sequence[Text], contexts: str, state: str) -> float:
    """Perplexity of the words (without EOS) in the forward direction."""
    width = bilm.config.projection_width
    losses = []
    for document in documents:
        runs = _runs(document, contexts)
        rows = bilm.embed([run for run, _, _ in runs], state=state, layers="top", boundaries=True)
        for (run, start, end), row in zip(runs, rows):
            before = torch.from_numpy(row[start:end, :width])
            targets = torch.from_numpy(bilm.vocabulary.ids(run[start:end]))
            with torch.no_grad():
                losses.append(bilm.head.token_losses(before, targets).numpy())
    return float(np.exp(np.concatenate(losses).mean()))


def _tagged(path: Path) -> Tagged:
    docs = list(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab))
    text = [[[token.text for token in sentence] for sentence in doc.sents] for doc in docs]
    return text, [token.pos_ for doc in docs for token in doc]


def _vectors(bilm: BiLM, documents: Sequence[Text], contexts: str, state: str) -> torch.Tensor:
    """Mean of the layers (tokens, D); a state is carried inside of a document only."""
    groups = [_runs(document, contexts) for document in documents]
    runs = [run for group in groups for run in group]
    layers = bilm.encode([run for run, _, _ in runs], state=state, group_lengths=[len(group) for group in groups])
    parts = layers.mean(dim=0).split([len(run) for run, _, _ in runs])
    return torch.cat([part[start:end] for part, (_, start, end) in zip(parts, runs)])


def _probe(bilm: BiLM, train: Tagged, dev: Tagged, contexts: str, state: str) -> Score:
    """Accuracy of one linear layer over the mean of the biLM's layers."""
    torch.manual_seed(0)
    names = sorted(set(train[1]))
    places = {name: i for i, name in enumerate(names)}
    vectors = _vectors(bilm, train[0], contexts, state)
    wanted = torch.tensor([places[name] for name in train[1]])
    probe = torch.nn.Linear(vectors.shape[1], len(names))
    optimizer = torch.optim.Adam(probe.parameters(), lr=0.003)
    for _ in range(4):
        for batch in torch.randperm(len(wanted)).split(512):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(probe(vectors[batch]), wanted[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        found = probe(_vectors(bilm, dev[0], contexts, state)).argmax(dim=1).tolist()
    lengths = [len(sentence) for document in dev[0] for sentence in document]
    correct = [names[i] == tag for i, tag in zip(found, dev[1])]
    return bootstrap_accuracy(correct, np.repeat(np.arange(len(lengths)), lengths))


if __name__ == "__main__":
    typer.run(main)
