"""The check that there is something to train on, which spaCy leaves to each component."""

from typing import Any, Callable, Iterable, Optional

from spacy.language import Language
from spacy.training import Example
from spacy.util import registry

from ..errors import Errors
from ..ml.calling_pipeline import trained_pipeline


def check_training_part(get_examples: Callable[[], Iterable[Example]], nlp: Optional[Language], name: str) -> None:
    """get_examples (Callable[[], Iterable[Example]]): Gives the training examples.
    nlp (Optional[Language]): The pipeline, whose config may say why there are none.
    name (str): The component.
    RAISES (ValueError): EL082 if no token is other than white space, EL435 if `spacy train` would make no batch, and
        look for one without end.
    """
    n_examples = 0
    for eg in get_examples():
        if _has_words(eg):
            _check_batcher(get_examples, nlp, name)
            return
        n_examples += 1
    raise ValueError(Errors.EL082.format(name=name, n_examples=n_examples, limit=_tell_limit(nlp)))


def _check_batcher(get_examples: Callable[[], Iterable[Example]], nlp: Optional[Language], name: str) -> None:
    if nlp is None or trained_pipeline() is not nlp:
        return
    block = nlp.config.interpolate()["training"]["batcher"]
    if not block.get("discard_oversize"):
        return
    batcher = registry.resolve({"batcher": block})["batcher"]
    if next(iter(batcher(get_examples())), None) is None:
        told = {"batcher": block.get("@batchers"), "size": block.get("size")}
        raise ValueError(Errors.EL435.format(name=name, **told))


def _has_words(eg: Any) -> bool:
    """RETURNS (bool): Whether there is a word to train on; True for what is no Example, which spaCy then reports."""
    return not isinstance(eg, Example) or any(not token.is_space for token in eg.reference)


def _tell_limit(nlp: Optional[Language]) -> str:
    """RETURNS (str): The setting of spaCy's reader that drops long Docs; empty if it has no limit."""
    corpora = {} if nlp is None else nlp.config.get("corpora", {})
    max_length = corpora.get("train", {}).get("max_length") or 0
    if not max_length:
        return ""
    return (
        f" max_length = {max_length} in [corpora.train] drops Docs with as many tokens or more (of Docs with sentence "
        "boundaries, such sentences): raise it, or set it to 0 for no limit."
    )
