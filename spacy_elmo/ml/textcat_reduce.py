"""spaCy's text classifier over pooled vectors, for batches in which some Docs have no tokens."""

from typing import Any, Callable, Dict, List, Optional, Tuple

from spacy.tokens import Doc
from spacy.util import registry
from thinc.api import Model
from thinc.types import Floats2d

DocModel = Model[List[Doc], Floats2d]
BAG_OF_WORDS = "spacy.TextCatBOW."  # of which version ever
RESIZE = "resize_output"  # attribute that spaCy's component calls when a label is added


def TextCatReduce(
    tok2vec: Model[List[Doc], List[Floats2d]],
    exclusive_classes: bool,
    use_reduce_first: bool = False,
    use_reduce_last: bool = False,
    use_reduce_max: bool = False,
    use_reduce_mean: bool = True,
    nO: Optional[int] = None,
) -> DocModel:
    """`spacy.TextCatReduce.v1`, in which a Doc without tokens scores 0 in each category. spaCy's raises an error for
    it beside other Docs if it pools by anything but the mean (spaCy 3.8), and scores it 0 in a batch of its own.

    tok2vec (Model[List[Doc], List[Floats2d]]): The vectors to pool.
    exclusive_classes (bool): Whether a Doc has one category.
    use_reduce_first (bool), use_reduce_last (bool): Pool by the vector of the first or last token.
    use_reduce_max (bool), use_reduce_mean (bool): Pool by the maximum or mean of each value.
    nO (Optional[int]): Number of categories; null to infer it from the data.
    RETURNS (Model[List[Doc], Floats2d]): Scores, shape (Docs, categories).
    RAISES (ValueError): E1057 of spaCy if nothing pools.
    """
    build = registry.architectures.get("spacy.TextCatReduce.v1")
    kinds = (use_reduce_first, use_reduce_last, use_reduce_max, use_reduce_mean)
    return skip_empty_docs(build(tok2vec, exclusive_classes, *kinds, nO))


def reduce_classifier(exclusive_classes: bool, *kinds: str) -> Dict[str, Any]:
    """exclusive_classes (bool): As in the classifier that it replaces.
    *kinds (str): What it reads: "first", "last", "max" or "mean" of the vectors.
    RETURNS (Dict[str, Any]): The settings of a text classifier, without its tok2vec.
    """
    reductions = {f"use_reduce_{kind}": kind in kinds for kind in ("first", "last", "max", "mean")}
    name = "spacy.TextCatReduce.v1" if kinds == ("mean",) else "spacy-elmo.TextCatReduce.v1"
    return {"@architectures": name, "exclusive_classes": exclusive_classes, **reductions, "nO": None}


def skip_empty_docs(classifier: DocModel) -> DocModel:
    """classifier (Model[List[Doc], Floats2d]): Scores Docs with tokens.
    RETURNS (Model[List[Doc], Floats2d]): The same, with zeros for Docs without.
    """
    attrs = dict(classifier.attrs)
    if RESIZE in attrs:
        attrs[RESIZE] = _resize
    model: DocModel = Model("skip_empty_docs", forward, init=init, layers=[classifier], attrs=attrs, dims={"nO": None})
    model.set_ref("tok2vec", classifier.get_ref("tok2vec"))
    if classifier.has_dim("nO"):
        model.set_dim("nO", classifier.get_dim("nO"))
    return model


def init(model: DocModel, X: Optional[List[Doc]] = None, Y: Optional[Floats2d] = None) -> None:
    """X (Optional[List[Doc]]), Y (Optional[Floats2d]): A sample of Docs, and their categories for the width."""
    (classifier,) = model.layers
    classifier.initialize(X=[doc for doc in X or [] if len(doc)] or None, Y=Y)
    if classifier.has_dim("nO"):
        model.set_dim("nO", classifier.get_dim("nO"), force=True)


def forward(model: DocModel, docs: List[Doc], is_train: bool) -> Tuple[Floats2d, Callable[[Floats2d], Any]]:
    """docs (List[Doc]): The batch. RETURNS (Tuple[Floats2d, Callable[[Floats2d], Any]]): Scores, backward pass."""
    (classifier,) = model.layers
    kept = [i for i, doc in enumerate(docs) if len(doc)]
    if len(kept) == len(docs):
        return classifier(docs, is_train)
    scores = model.ops.alloc2f(len(docs), model.get_dim("nO"))
    if not kept:
        return scores, lambda d_scores: []
    scores[kept], backprop = classifier([docs[i] for i in kept], is_train)
    return scores, lambda d_scores: backprop(d_scores[kept])


def _resize(model: DocModel, new_nO: int) -> DocModel:
    (classifier,) = model.layers
    classifier.attrs[RESIZE](classifier, new_nO)
    model.set_dim("nO", new_nO, force=True)
    return model
