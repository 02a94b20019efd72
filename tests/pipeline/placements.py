"""Components on a task encoder: ELMo beside the input, the output, or both."""

from typing import Any, Dict

import spacy
from spacy.language import Language
from spacy.training import Example

from .tiny import LISTENER, add_elmo, make_examples

EMBED: Dict[str, Any] = {
    "@architectures": "spacy.MultiHashEmbed.v2",
    "width": 6,
    "attrs": ["NORM", "SHAPE"],
    "rows": [50, 20],
    "include_static_vectors": False,
}
BILSTM: Dict[str, Any] = {"@architectures": "spacy-elmo.BiLSTMEncoder.v1", "width": 10, "depth": 1}
WINDOW: Dict[str, Any] = {
    "@architectures": "spacy.MaxoutWindowEncoder.v2",
    "width": 8,
    "window_size": 1,
    "maxout_pieces": 2,
    "depth": 1,
}
# Different settings, so that mixes that are mistaken for each other are noticed.
INPUT = {**LISTENER, "initial_weights": [0.5, -0.5, 1.0], "layer_norm": "token"}
OUTPUT = {**LISTENER, "initial_gamma": 2.0, "projection_width": 5}
PLACEMENTS: Dict[str, Dict[str, Any]] = {
    "input": {"elmo_input": INPUT},
    "output": {"elmo_output": OUTPUT},
    "both": {"elmo_input": INPUT, "elmo_output": OUTPUT},
}


def task_encoder(placement: str = "both", encode: Dict[str, Any] = BILSTM, **settings: Any) -> Dict[str, Any]:
    """Config of a `tok2vec`."""
    encoder = {"@architectures": "spacy-elmo.ElmoTaskEncoder.v1", "embed": EMBED, "encode": encode}
    return {**encoder, **PLACEMENTS[placement], **settings}


def make_tagger(tok2vec: Dict[str, Any], **elmo: Any) -> Language:
    """A pipeline of ELMo and a tagger."""
    nlp = spacy.blank("en")
    add_elmo(nlp, **elmo)
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}})
    nlp.initialize(lambda: make_examples(nlp))
    return nlp


def make_full_examples(nlp: Language) -> "list[Example]":
    """Examples with an annotation for every component."""
    examples = make_examples(nlp)
    for eg in examples:
        for token in eg.reference:
            token.set_morph("A=B" if token.i % 2 else "A=C")
            token.lemma_ = token.text.lower().removesuffix("s")
    return examples
