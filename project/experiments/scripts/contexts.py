"""Compare contexts and initial states of a biLM: perplexity, and a linear probe of UPOS on UD EWT."""

import csv
import gzip
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import numpy as np
import spacy
import torch
import typer
from spacy.tokens import DocBin
from wasabi import msg

from spacy_elmo import BiLM, load_bilm
from spacy_elmo.analysis import Score, bootstrap_accuracy
from spacy_elmo.pipeline.model import split_windows

sys.path.append(str(Path(__file__).parents[2] / "scripts"))  # of the example: data.py, shared.py
from datasets import find_sources
from shared import ASSETS, identify, report_errors, write_json
from stored import RESULTS_DIR, is_finished

MAX_TOKENS, OVERLAP = 512, 64  # of the windows of the component `elmo`
Text = List[List[str]]
Tagged = Tuple[List[Text], List[str]]
# Contexts and states of the component; "carry" goes from sentence to sentence of a Doc.
PAIRS = (("sentences", "reset"), ("sentences", "steady"), ("sentences", "carry"), ("doc", "reset"), ("doc", "steady"))


@report_errors("Cannot compare contexts")
def contexts_cli(
    bilm_path: str = typer.Argument(..., help="Weights in any known format, with a softmax"),
    n_documents: int = typer.Option(150, "--documents", "-d", help="Held-out documents for perplexities"),
    threads: int = typer.Option(2, "--threads", "-t", help="Threads of torch"),
    assets_dir: str = ASSETS,
    results: Path = typer.Option(RESULTS_DIR, "--results", "-r", help="Folder for contexts.json", file_okay=False),
    force: bool = typer.Option(False, "--force", "-F", help="Compute the scores again if the file exists"),
) -> None:
    """Compare document with sentence contexts, and the zero state with the steady and the carried one: forward
    perplexity, and accuracy of the probe (0 to 1) with its 95 % interval (bootstrap over sentences).
    """
    torch.set_num_threads(threads)
    output_path = results / "contexts.json"
    if not force and is_finished(output_path, bilm_path):
        msg.info(f"{output_path} exists; --force computes it again")
        return
    paths = find_sources("contexts", assets_dir)
    bilm = load_bilm(bilm_path)
    documents = list(_read_documents(paths["valid"], paths["documents"]))[:n_documents]
    train, dev = _read_tagged(paths["train"]), _read_tagged(paths["dev"])
    n_tokens = sum(len(sentence) for document in documents for sentence in document)
    sizes = {"n_documents": len(documents), "n_tokens": n_tokens, "n_train": len(train[1]), "n_dev": len(dev[1])}
    rows: List[Dict[str, Any]] = []
    for contexts, state in PAIRS:
        perplexity = _compute_perplexity(bilm, documents, contexts, state)
        probe = _probe(bilm, train, dev, contexts, state)
        accuracy = {"accuracy": probe.value, "low": probe.low, "high": probe.high}
        rows.append({"contexts": contexts, "state": state, "perplexity": perplexity, **accuracy})
        msg.text(f"{contexts}, {state}: perplexity {perplexity:.2f}, accuracy {probe.value:.2%}")
    identity = {"experiment": "contexts", **identify(bilm_path)}
    write_json(output_path, {**identity, **sizes, "max_tokens": MAX_TOKENS, "rows": rows})


def _read_documents(held_out: Path, lines_of_documents: Path) -> Iterator[Text]:
    with gzip.open(held_out, "rt", encoding="utf8") as text:
        lines = [line.split() for line in text]
    with gzip.open(lines_of_documents, "rt", encoding="utf8", newline="") as table:
        for row in csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row["shard"].startswith("valid"):
                first = int(row["first_line"])
                yield lines[first : first + int(row["lines"])]


def _read_tagged(path: Path) -> Tagged:
    docs = list(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab))
    text = [[[token.text for token in sentence] for sentence in doc.sents] for doc in docs]
    return text, [token.pos_ for doc in docs for token in doc]


def _divide(document: Text, contexts: str) -> List[Tuple[List[str], slice]]:
    """RETURNS (List[Tuple[List[str], slice]]): Sequences, and the words of each that are scored."""
    if contexts == "sentences":
        return [(sentence, slice(0, len(sentence))) for sentence in document]
    words = [word for sentence in document for word in sentence]
    return [
        (words[w.start : w.end], slice(w.central_start - w.start, w.central_end - w.start))
        for w in split_windows(len(words), MAX_TOKENS, OVERLAP)
    ]


def _compute_perplexity(bilm: BiLM, documents: Sequence[Text], contexts: str, state: str) -> float:
    """Perplexity of the words (without EOS) in the forward direction."""
    width = bilm.config.projection_width
    losses = []
    for document in documents:
        sequences = _divide(document, contexts)
        rows = bilm.embed([words for words, _ in sequences], state=state, layers="top", boundaries=True)
        for (words, scored), row in zip(sequences, rows):
            targets = torch.from_numpy(bilm.vocabulary.ids(words[scored]))
            with torch.no_grad():
                losses.append(bilm.head.token_losses(torch.from_numpy(row[scored, :width]), targets).numpy())
    return float(np.exp(np.concatenate(losses).mean()))


def _encode(bilm: BiLM, documents: Sequence[Text], contexts: str, state: str) -> torch.Tensor:
    """RETURNS (Tensor): Mean of the layers (tokens, D); a state is carried inside of a document only."""
    groups = [_divide(document, contexts) for document in documents]
    sequences = [sequence for group in groups for sequence in group]
    layers = bilm.encode([words for words, _ in sequences], state=state, group_lengths=[len(group) for group in groups])
    vectors = layers.mean(dim=0).split([len(words) for words, _ in sequences])
    return torch.cat([rows[scored] for rows, (_, scored) in zip(vectors, sequences)])


def _probe(bilm: BiLM, train: Tagged, dev: Tagged, contexts: str, state: str) -> Score:
    """Accuracy of one linear layer over the mean of the biLM's layers."""
    torch.manual_seed(0)
    names = sorted(set(train[1]))
    vectors = _encode(bilm, train[0], contexts, state)
    targets = torch.tensor([names.index(name) for name in train[1]])
    probe = torch.nn.Linear(vectors.shape[1], len(names))
    optimizer = torch.optim.Adam(probe.parameters(), lr=0.003)
    for _ in range(4):
        for batch in torch.randperm(len(targets)).split(512):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(probe(vectors[batch]), targets[batch]).backward()
            optimizer.step()
    with torch.no_grad():
        predicted = probe(_encode(bilm, dev[0], contexts, state)).argmax(dim=1).tolist()
    lengths = [len(sentence) for document in dev[0] for sentence in document]
    correct = [names[i] == tag for i, tag in zip(predicted, dev[1])]
    return bootstrap_accuracy(correct, np.repeat(np.arange(len(lengths)), lengths))


if __name__ == "__main__":
    typer.run(contexts_cli)
