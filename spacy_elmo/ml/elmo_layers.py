"""Which layers of a model give ELMo vectors."""

from typing import Any, List

from thinc.api import Model

ELMO_LAYERS = ("elmo-listener", "elmo_tok2vec")  # names in `listener.py` and `owned_tok2vec.py`


def has_elmo(model: Model[Any, Any]) -> bool:
    """RETURNS (bool): Whether a model has a listener or its own biLM."""
    return any(node.name in ELMO_LAYERS for node in model.walk())


def check_elmo(name: str, layer: Model[Any, Any]) -> List[str]:
    """name (str): A setting for ELMo vectors.
    layer (Model): What it is.
    RETURNS (List[str]): What is wrong with it; empty if it gives ELMo vectors.
    """
    wanted = "spacy-elmo.ElmoListener.v1 or spacy-elmo.ElmoTok2Vec.v1"
    return [] if has_elmo(layer) else [f"{name} is '{layer.name}', which has no ELMo, should be {wanted}"]
