"""Components on a task encoder: ELMo beside the input, the output, or both."""

from typing import Any, Dict

from .tiny import LISTENER

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
