"""One side of `against.py`: answers requests on stdin, a JSON object per line. Uses public names only, old and new."""

import json
import os
import subprocess
import sys
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import spacy
import torch
from corpus import (
    PACKAGED,
    Document,
    default_shared,
    flatten,
    long_document,
    make_doc,
    make_pipeline,
    read_documents,
)

import spacy_elmo
from spacy_elmo import load_bilm

LONG_TOKENS, SMALL_TOKENS = 5000, 1500  # tokens of a text, for small and for large biLMs
FEW_SENTENCES = 10
PRETRAIN_UPDATES = 40
LEARNED = {
    "pretraining.batch_size": 32,
    "pretraining.eval_every": PRETRAIN_UPDATES,
    "pretraining.eval_sentences": 50,
    "pretraining.report_every": 1,
    "pretraining.precision": "float32",
    "pretraining.schedule.warmup_steps": 10,
    "vocabulary.n_words": 5000,
}


@lru_cache(maxsize=1)
def documents() -> List[Document]:
    """RETURNS (List[Document]): UD EWT dev."""
    return read_documents(default_shared())


@lru_cache(maxsize=8)
def bilm_of(weights: str, precision: str = "float32") -> Any:
    """RETURNS (BiLM): Loaded once."""
    return load_bilm(weights, precision=precision)


@lru_cache(maxsize=8)
def pipeline_of(weights: str, contexts: str = "sentences") -> Any:
    """RETURNS (Language): A pipeline with the component, made once."""
    return make_pipeline(weights, model={"contexts": contexts}, store="mixed")


@lru_cache(maxsize=1)
def surprisal_pipeline() -> Any:
    """RETURNS (Language): A pipeline with `elmo_surprisal` of en_elmo_sm, made once."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo_surprisal")
    return nlp


def encode_with_grad(bilm: Any, sentences: List[List[str]]) -> Any:
    """RETURNS (Tensor): Layers with their graph; up to commit 148bc93b by a method of its own."""
    if hasattr(bilm, "encode_with_grad"):
        return bilm.encode_with_grad(sentences)
    return bilm.encode(sentences, with_grad=True)


# Numbers


def embeddings(weights: str) -> Dict[str, Any]:
    """Vectors of sentences with every state, in batches and as single sequences."""
    found: Dict[str, Any] = {}
    sentences = flatten(documents())[:150]
    for name in (PACKAGED, weights):
        bilm = bilm_of(name)
        for state in ("reset", "steady", "carry"):
            key = f"{Path(name).name} {state}"
            found[key] = np.concatenate(bilm.embed(sentences, state=state), axis=1)
            one_by_one = [bilm.embed([words], state=state)[0] for words in sentences[:30]]
            found[f"{key}, one by one"] = np.concatenate(one_by_one, axis=1)
            small_batches = bilm.embed(sentences, state=state, batch_tokens=100)
            found[f"{key}, small batches"] = np.concatenate(small_batches, axis=1)
        vectors, state = bilm.embed(sentences[:9], state=None, return_state=True, boundaries=True)
        found[f"{Path(name).name} with boundaries"] = np.concatenate(vectors, axis=1)
        found[f"{Path(name).name} h"], found[f"{Path(name).name} c"] = state.h.numpy(), state.c.numpy()
        gradient_of = encode_with_grad(bilm, sentences[:20])
        found[f"{Path(name).name} with gradient"] = gradient_of.detach().numpy()
    return found


def reduced_precision(weights: str) -> Dict[str, Any]:
    """Vectors from quantized weights."""
    sentences = flatten(documents())[:150]
    precisions = ("bfloat16", "int8")
    return {one: np.concatenate(bilm_of(PACKAGED, one).embed(sentences), axis=1) for one in precisions}


def docs(weights: str) -> Dict[str, Any]:
    """Vectors on Docs, by sentences and in windows."""
    found: Dict[str, Any] = {}
    for contexts in ("sentences", "doc"):
        nlp = pipeline_of(PACKAGED, contexts)
        made = [make_doc(nlp.vocab, document, has_sentences=contexts == "sentences") for document in documents()[:20]]
        made.append(make_doc(nlp.vocab, long_document(documents(), 2000), has_sentences=contexts == "sentences"))
        found[contexts] = np.concatenate([doc._.elmo for doc in nlp.pipe(made)])
    return found


def parity(weights: str) -> Dict[str, Any]:
    """Vectors of the ground-truth models; `python -m parity.table` in `tests` has the differences from bilm-tf."""
    found: Dict[str, Any] = {}
    root = default_shared() / "data" / "elmo-groundtruth"
    texts = [item["tokens"] for item in json.loads((root / "sentences.json").read_text(encoding="utf8"))]
    for options in sorted(root.glob("*/options.json")):
        if (options.parent / "weights.hdf5").is_file():
            bilm = load_bilm(options=options, weights=options.parent / "weights.hdf5")
            found[options.parent.name] = np.concatenate(bilm.embed(texts), axis=1)
    return found


def perplexities(weights: str) -> Dict[str, Any]:
    """Losses of both directions in nats, with every state: logarithms of perplexities, on the scale of the limit."""
    found = {}
    for state in ("carry", "reset", "steady"):
        score = bilm_of(PACKAGED).perplexity(flatten(documents())[:300], state=state)
        found[state] = np.log([score.forward, score.backward])
    return found


def pretraining(weights: str) -> Dict[str, Any]:
    """Losses of a run, and of a run that is stopped half-way and resumed."""
    found = {}
    for name, stops in (("whole", [PRETRAIN_UPDATES]), ("resumed", [PRETRAIN_UPDATES // 2, PRETRAIN_UPDATES])):
        folder = Path(f"run-{name}")
        for stop in stops:
            pretrain(folder, stop)
        rows = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf8").splitlines()]
        found[name] = np.array([row["loss"] for row in rows])
        found[f"{name}, held out"] = np.log([rows[-1]["forward"], rows[-1]["backward"]])  # perplexities, so in nats
    return found


def pretrain(folder: Path, n_updates: int) -> None:
    """Train in a separate process, up to a number of updates."""
    text = default_shared() / "data" / "lm-english" / "valid.txt.gz"
    n_tokens = 32 * 32 * n_updates
    options = {**LEARNED, "paths.train": text, "paths.valid": text, "pretraining.max_tokens": n_tokens}
    options["pretraining.schedule.name"] = "constant"
    arguments = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
    config = Path("pretrain_en_elmo_sm.cfg")  # of this side
    config_path = folder.with_suffix(".cfg")
    lines = config.read_text(encoding="utf8").splitlines()
    # Settings that an older side does not know.
    new = ("encoder = ", "codec = ", "n_characters = ", "max_passes = ", "warmup_share = ")
    config_path.write_text("\n".join(line for line in lines if not line.startswith(new)), encoding="utf8")
    command = [sys.executable, "-m", "spacy_elmo", "pretrain", str(config_path), str(folder), "--resume", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


NUMBERS: Dict[str, Callable[[str], Dict[str, Any]]] = {
    "embeddings": embeddings,
    "reduced precision": reduced_precision,
    "docs": docs,
    "parity": parity,
    "perplexities": perplexities,
    "pretraining": pretraining,
}

# Speed: each function returns its number of tokens


def sized(weights: str) -> List[Document]:
    """RETURNS (List[Document]): Text for about one second."""
    is_slow = weights != PACKAGED and Path(weights).name in ("medium", "original")
    n_tokens, some = SMALL_TOKENS if is_slow else 4 * LONG_TOKENS, []
    for document in documents():
        some.append(document)
        n_tokens -= sum(map(len, document))
        if n_tokens <= 0:
            break
    return some


def pipe(nlp: Any, text: List[Document]) -> int:
    """`nlp.pipe` over documents."""
    for _ in nlp.pipe(make_doc(nlp.vocab, document) for document in text):
        pass
    return sum(map(len, flatten(text)))


def call(nlp: Any, text: List[Document], *, has_sentences: bool = True) -> int:
    """`nlp(doc)`, one document at a time."""
    for document in text:
        nlp(make_doc(nlp.vocab, document, has_sentences=has_sentences))
    return sum(map(len, flatten(text)))


def call_long(weights: str, contexts: str) -> int:
    """`nlp(doc)` of one long Doc, by sentences or in windows."""
    text = sized(weights)
    document = long_document(text, min(LONG_TOKENS, sum(map(len, flatten(text)))))
    return call(pipeline_of(weights, contexts), [document], has_sentences=contexts == "sentences")


def call_few(weights: str) -> int:
    """`nlp(doc)` of Docs of a few sentences."""
    sentences = flatten(sized(weights))
    text = [sentences[first : first + FEW_SENTENCES] for first in range(0, len(sentences), FEW_SENTENCES)][:30]
    return call(pipeline_of(weights), text)


def embed(weights: str, precision: str = "float32") -> int:
    """`BiLM.embed` of sentences."""
    sentences = flatten(sized(weights))
    bilm_of(weights, precision).embed(sentences)
    return sum(map(len, sentences))


def train(weights: str) -> int:
    """Forward and backward pass through the biLM."""
    bilm, sentences = bilm_of(weights), flatten(sized(weights))[:64]
    encode_with_grad(bilm, sentences).sum().backward()
    bilm.network.zero_grad()
    return sum(map(len, sentences))


def perplexity(weights: str) -> int:
    """`BiLM.perplexity` with carried state."""
    sentences = flatten(sized(weights))
    bilm_of(weights).perplexity(sentences)
    return sum(map(len, sentences))


SHAPES: Dict[str, Callable[[str], int]] = {
    "batch": lambda weights: pipe(pipeline_of(weights), sized(weights)),
    "embed": embed,
    "single": lambda weights: call(pipeline_of(weights), [[words] for words in flatten(sized(weights))[:60]]),
    "few": call_few,
    "long": lambda weights: call_long(weights, "sentences"),
    "windows": lambda weights: call_long(weights, "doc"),
    "int8": lambda weights: embed(weights, "int8"),
    "train": train,
    # Of en_elmo_sm: the other sizes have no softmax.
    "perplexity": lambda weights: perplexity(PACKAGED),
    "surprisal": lambda weights: pipe(surprisal_pipeline(), sized(PACKAGED)),
}


def answer(request: Dict[str, Any]) -> Any:
    """RETURNS (Any): Tokens/s and the share of system time in CPU time, or nothing where arrays are written."""
    if request["task"] == "numbers":
        np.savez(request["path"], **NUMBERS[request["name"]](request["weights"]))
        return True
    started, before = time.perf_counter(), os.times()
    n_tokens = SHAPES[request["shape"]](request["weights"])
    after = os.times()
    user, system = after.user - before.user, after.system - before.system
    return {"rate": n_tokens / (time.perf_counter() - started), "system": system / max(user + system, 0.01)}


def main() -> None:
    """Answer requests until stdin is closed."""
    assert Path(spacy_elmo.__file__).is_relative_to(sys.argv[1]), f"{spacy_elmo.__file__} is another installation"
    torch.set_num_threads(int(sys.argv[2]))
    torch.manual_seed(0)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
