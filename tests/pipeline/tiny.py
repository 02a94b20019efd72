"""A tiny biLM with random weights, and pipelines around it."""

from typing import Any, Dict, List, Optional

import numpy
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from thinc.api import Adam

from spacy_elmo.pipeline import crf_ner, elmo  # noqa: F401  registers factories where the package is not installed
from spacy_elmo.pipeline.model import get_bilm, make_random_bilm

BILM: Dict[str, Any] = {
    "char_cnn": {"embedding_width": 4, "filters": [[1, 8], [2, 8]], "n_highway": 1},
    "n_layers": 2,
    "cell_width": 16,
    "projection_width": 8,
}
WIDE = {**BILM, "projection_width": 12}
N_LAYERS, WIDTH = 3, 16
LISTENER = {"@architectures": "spacy-elmo.ElmoListener.v1"}
TEXTS = [
    "She sat on the bank of the river.",
    "The bank raised its rates.  It was a Tuesday.",
    "",
    "Berlin",
    "  \n ",
    "Ana lives in Oslo with Bob; they like the sea \U0001f30a.",
]
TAGGED = [
    (["She", "sat", "on", "the", "bank"], ["PRON", "VERB", "ADP", "DET", "NOUN"]),
    (["The", "bank", "raised", "rates"], ["DET", "NOUN", "VERB", "NOUN"]),
    (["Rivers", "flow", "slowly"], ["NOUN", "VERB", "ADV"]),
]


def loader_block(seed: int = 1, bilm: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    return {"loader": {"@misc": "spacy-elmo.RandomBiLM.v1", "bilm": bilm or BILM, "seed": seed}}


def add_elmo(
    nlp: Language, name: str = "elmo", seed: int = 1, bilm: Optional[Dict[str, Any]] = None, **config: Any
) -> Any:
    """Add an ELMo component with random weights."""
    component = nlp.add_pipe("elmo", name=name, config=config)
    nlp.config["initialize"]["components"][name] = loader_block(seed, bilm)
    component.initialize(lambda: [make_example(nlp)], nlp=nlp, loader=lambda: make_random_bilm(bilm or BILM, seed))
    return component


def make_example(nlp: Language) -> Example:
    return Example.from_dict(nlp.make_doc("one"), {})


def make_examples(nlp: Language) -> List[Example]:
    """Sentences with annotations for every component."""
    examples = []
    for words, tags in TAGGED:
        doc = Doc(nlp.vocab, words=words)
        entities = ["O"] * len(words)
        entities[1] = "U-THING"
        cats = {"SHORT": float(len(words) < 4), "LONG": float(len(words) >= 4)}
        heads, deps = [1] * len(words), ["dep"] * len(words)
        deps[1] = "ROOT"
        record = {"words": words, "tags": tags, "entities": entities, "cats": cats, "heads": heads, "deps": deps}
        record["morphs"] = ["A=B" if i % 2 else "A=C" for i in range(len(words))]
        record["lemmas"] = [word.lower().removesuffix("s") for word in words]
        examples.append(Example.from_dict(doc, record))
        examples[-1].reference.spans["sc"] = [Span(examples[-1].reference, 0, 2, label="START")]
    return examples


def listening(architecture: str = "spacy.Tagger.v2", **listener: Any) -> Dict[str, Any]:
    """Config of a component whose `tok2vec` is a listener."""
    return {"model": {"@architectures": architecture, "tok2vec": {**LISTENER, **listener}}}


def make_tagger(tok2vec: Optional[Dict[str, Any]] = None, **settings: Any) -> Language:
    """An initialized pipeline of ELMo and a tagger."""
    nlp = spacy.blank("en")
    add_elmo(nlp, **settings)
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec or LISTENER}})
    nlp.initialize(lambda: make_examples(nlp))
    return nlp


def train(nlp: Language, n_updates: int = 3, sgd: Any = None, **settings: Any) -> Dict[str, float]:
    """Two updates at least reach the biLM: the output layer begins with zeros. RETURNS: The last losses."""
    optimizer = sgd or Adam(0.05)
    for _ in range(n_updates):
        losses = nlp.update(make_examples(nlp), sgd=optimizer, **settings)
    return losses


def get_bilm_weights(nlp: Language, name: str = "elmo") -> Dict[str, Any]:
    """Copies of all weights of a biLM."""
    network = get_bilm(nlp.get_pipe(name).model).network
    return {key: value.detach().clone().numpy() for key, value in network.state_dict().items()}


def are_equal(one: Dict[str, Any], other: Dict[str, Any]) -> bool:
    """Whether all arrays are the same."""
    return all(numpy.array_equal(array, other[key]) for key, array in one.items())
