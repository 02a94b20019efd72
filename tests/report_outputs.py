"""Outputs of trainings, without training: a tagger and a fixed recognizer on a tiny biLM, and the same without ELMo."""

from pathlib import Path
from typing import Any, Dict, List, Optional

import spacy
import srsly
from nn.tiny import SIZES
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example

from spacy_elmo.pipeline import component  # noqa: F401  registers the factory where the package is not installed

LOADER = {"@misc": "spacy-elmo.RandomBiLM.v1", "bilm": SIZES}
LISTENER = {"@architectures": "spacy-elmo.ElmoListener.v1"}
TAGS = {"Acme": "PROPN", "hires": "VERB", "Ada": "PROPN", "today": "NOUN", "<b>": "X"}


def make_pipeline(patterns: Dict[str, str], *, has_elmo: bool) -> Language:
    """A tagger with random weights, and entities by rule, from words to labels: these answers are known beforehand."""
    nlp = spacy.blank("en")
    config: Dict[str, Any] = {}
    if has_elmo:
        nlp.add_pipe("elmo")
        nlp.config["initialize"]["components"]["elmo"] = {"loader": LOADER}
        config = {"model": {"tok2vec": LISTENER}}
    tagger: Any = nlp.add_pipe("tagger", config=config)
    for tag in sorted(set(TAGS.values())):
        tagger.add_label(tag)
    ruler: Any = nlp.add_pipe("entity_ruler")
    nlp.initialize(lambda: [Example.from_dict(nlp.make_doc("Acme"), {"tags": ["PROPN"]})])
    ruler.add_patterns([{"label": label, "pattern": [{"ORTH": word}]} for word, label in patterns.items()])
    return nlp


def write_output(
    folder: Path,
    patterns: Dict[str, str],
    *,
    has_elmo: bool = True,
    metrics: Optional[Dict[str, Any]] = None,
    seed: int = 0,
) -> Path:
    """What `spacy train` leaves, and metrics.json if there are metrics."""
    folder.mkdir(parents=True, exist_ok=True)
    nlp = make_pipeline(patterns, has_elmo=has_elmo)
    nlp.config["system"]["seed"] = seed
    nlp.to_disk(folder / "model-best")
    if metrics is not None:
        srsly.write_json(folder / "metrics.json", metrics)
    return folder


TEXTS = [("a dull film", "bad"), ("a fine film", "good"), ("dull and long", "bad"), ("fine , and short", "good")]


def write_classifier(folder: Path, *, has_elmo: bool = True, n_updates: int = 0, factory: str = "textcat") -> Path:
    """What `spacy train` leaves of a text categorizer as `init-config` writes it, with its scores in meta.json."""
    nlp = spacy.blank("en")
    listener = None
    if has_elmo:
        nlp.add_pipe("elmo")
        nlp.config["initialize"]["components"]["elmo"] = {"loader": LOADER}
        listener = {**LISTENER, "mix": "concat", "initial_gamma": 0.1, "learn_gamma": False}
    is_exclusive = factory == "textcat"
    model = {"@architectures": "spacy-elmo.TextCatNgrams.v1", "tok2vec": listener, "exclusive_classes": is_exclusive}
    nlp.add_pipe(factory, config={"model": model})
    examples = [Example(doc, doc) for doc in make_texts(nlp)]
    nlp.initialize(lambda: examples)
    for _ in range(n_updates):
        nlp.update(examples)
    scores = nlp.evaluate(examples)
    nlp.meta["performance"] = {key: value for key, value in scores.items() if key.startswith("cats_")}
    folder.mkdir(parents=True, exist_ok=True)
    nlp.to_disk(folder / "model-best")
    return folder


def make_texts(nlp: Language, n_copies: int = 5) -> List[Doc]:
    """RETURNS (List[Doc]): Docs with one of two categories."""
    docs = []
    for text, label in TEXTS * n_copies:
        docs.append(nlp.make_doc(text))
        docs[-1].cats = {"bad": float(label == "bad"), "good": float(label == "good")}
    return docs


def write_scores(folder: Path, scores: Dict[str, Any]) -> None:
    """Scores on the development data, as `spacy train` writes them."""
    path = folder / "model-best" / "meta.json"
    srsly.write_json(path, {**srsly.read_json(path), "performance": scores})


def write_logs(folder: Path) -> None:
    """Two evaluations, with scores and layer weights."""
    scores = [
        {"step": step, "losses": {}, "scores": {"tag_acc": 50.0 + step, "ents_p": 1.0, "speed": 9e3}, "score": 0.5}
        for step in (0, 20)
    ]
    weights = [
        {"step": step, "component": "tagger", "number": 1, "place": None, "shares": [0.5, 0.3, 0.2], "gamma": 1.0}
        for step in (0, 20)
    ]
    srsly.write_jsonl(folder / "scores.jsonl", scores)
    srsly.write_jsonl(folder / "weights.jsonl", weights)


def write_docs(path: Path, sentences: List[List[str]], entities: List[List[Any]]) -> Path:
    """Annotated Docs: words, and (start, end, label) of their entities; words have the tags of `TAGS`."""
    nlp = spacy.blank("en")
    docs = []
    for words, spans in zip(sentences, entities):
        doc = Doc(nlp.vocab, words=words, tags=[TAGS.get(word, "X") for word in words])
        doc.set_ents([Span(doc, start, end, label=label) for start, end, label in spans])
        docs.append(doc)
    DocBin(docs=docs).to_disk(path)
    return path
