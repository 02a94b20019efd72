"""Docs to tags by a CRF: the architecture, its loss and its decoding.

The transitions are a parameter of a Thinc layer. They are saved, averaged and updated like all others.
"""

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Callable, List, NoReturn, Sequence, Tuple

import numpy
import torch
from spacy.tokens import Doc
from thinc.api import Linear, Model, chain, get_array_module, with_array, zero_init
from thinc.types import Floats2d
from thinc.util import torch2xp, xp2torch

from ..inference.isolation import isolated
from .biluo import MISSING, Rows, admissible_tags, allowed_transitions, count_tags
from .crf import FORBIDDEN, find_best_tags, negative_log_likelihood


@dataclass(frozen=True)
class CRFScores:
    """What the CRF scores tags by, or the gradient of that.

    emissions (List[Floats2d]): Shape (n, K) for each Doc, scores of the tags of each token.
    transitions (Floats2d): Shape (K+1, K+1), scores from row to column; the boundary comes last.
    """

    emissions: List[Floats2d]
    transitions: Floats2d


def CRFTagger(tok2vec: Model[List[Doc], List[Floats2d]]) -> Model[List[Doc], CRFScores]:
    """Score tags by a linear layer, and their transitions by a matrix.

    tok2vec (Model[List[Doc], List[Floats2d]]): Any layer that gives a vector for each token.
    RETURNS (Model[List[Doc], CRFScores]): The model of a `crf_ner`; in another component it raises a ValueError.
    """
    emit: Model[Floats2d, Floats2d] = Linear(init_W=zero_init)
    crf: Model[List[Floats2d], CRFScores] = Model(
        "crf", forward, init=init, dims={"nO": None}, params={"transitions": None}
    )
    model: Model[List[Doc], CRFScores] = chain(tok2vec, with_array(emit), crf)
    for name, layer in (("tok2vec", tok2vec), ("emit", emit), ("crf", crf)):
        model.set_ref(name, layer)
    model.attrs["resize_output"] = _refuse_component  # what spaCy's `ner` and `parser` call first
    return model


def set_label_count(model: Model[List[Doc], CRFScores], n_labels: int) -> None:
    """Tell a model how many labels there are, before it is initialized.

    model (Model[List[Doc], CRFScores]): A `CRFTagger`.
    n_labels (int): Labels of entities.
    """
    for name in ("emit", "crf"):
        model.get_ref(name).set_dim("nO", count_tags(n_labels))


def init(model: Model[List[Floats2d], CRFScores], X: Any = None, Y: Any = None) -> None:
    """Set all transitions to zero.

    RAISES (ValueError): If no component has set the number of tags.
    """
    if not model.has_dim("nO"):
        _refuse_component()
    n_tags = model.get_dim("nO")
    model.set_param("transitions", model.ops.alloc2f(n_tags + 1, n_tags + 1))


def forward(
    model: Model[List[Floats2d], CRFScores], emissions: List[Floats2d], is_train: bool
) -> Tuple[CRFScores, Callable[[CRFScores], List[Floats2d]]]:
    """emissions (List[Floats2d]): Shape (n, K) for each Doc.
    is_train (bool): Not used.
    RETURNS (Tuple[CRFScores, Callable]): The emissions with the transitions, and the callback that takes the gradient
        of both.
    """

    def backprop(d_scores: CRFScores) -> List[Floats2d]:
        model.inc_grad("transitions", d_scores.transitions)
        return d_scores.emissions

    return CRFScores(emissions, model.get_param("transitions")), backprop


@isolated
def compute_loss(scores: CRFScores, words: Sequence[Rows], tags: Sequence[Rows]) -> Tuple[float, CRFScores]:
    """The negative log likelihood of annotated tags, summed over Docs.

    scores (CRFScores): Of a batch of Docs.
    words (Sequence[Rows]): The tokens of each Doc that have a tag.
    tags (Sequence[Rows]): Their tags, `MISSING` to sum over all tags. A Doc with nothing else has no loss.
    RETURNS (Tuple[float, CRFScores]): The loss and its gradient.
    """
    xp = get_array_module(scores.transitions)
    d_scores = CRFScores([xp.zeros_like(part) for part in scores.emissions], xp.zeros_like(scores.transitions))
    kept = [i for i, found in enumerate(tags) if (found != MISSING).any()]
    if not kept:
        return 0.0, d_scores
    emissions, transitions = _to_torch([scores.emissions[i][words[i]] for i in kept], scores, requires_grad=True)
    n_tags = emissions.shape[1]
    admissible = torch.from_numpy(admissible_tags(numpy.concatenate([tags[i] for i in kept]), n_tags))
    with torch.enable_grad():
        losses = negative_log_likelihood(
            emissions, [len(words[i]) for i in kept], _constrain(transitions), admissible.to(emissions.device)
        )
        loss = losses.sum()
        d_emissions, d_transitions = torch.autograd.grad(loss, [emissions, transitions])
    d_scores.transitions[:] = torch2xp(d_transitions)
    for i, part in zip(kept, _split(torch2xp(d_emissions), [len(words[i]) for i in kept])):
        d_scores.emissions[i][words[i]] = part
    return float(loss.detach()), d_scores


@isolated
def decode(scores: CRFScores, words: Sequence[Rows], tags: Sequence[Rows]) -> List[Rows]:
    """Find the most probable tags.

    scores (CRFScores): Of a batch of Docs.
    words (Sequence[Rows]): The tokens of each Doc that have a tag.
    tags (Sequence[Rows]): Tags that are known already, `MISSING` for those to find.
    RETURNS (List[Rows]): A tag for each word of each Doc.
    """
    found = list(tags)
    kept = [i for i, known in enumerate(tags) if len(known)]
    if not kept:
        return found
    emissions, transitions = _to_torch([scores.emissions[i][words[i]] for i in kept], scores)
    known = numpy.concatenate([tags[i] for i in kept])
    lengths = [len(words[i]) for i in kept]
    with torch.no_grad():
        if (known != MISSING).any():
            admissible = torch.from_numpy(admissible_tags(known, emissions.shape[1]))
            emissions = emissions.masked_fill(~admissible.to(emissions.device), FORBIDDEN)
        best = find_best_tags(emissions, lengths, _constrain(transitions)).cpu().numpy()
    for i, part in zip(kept, _split(best, lengths)):
        found[i] = part
    return found


def _to_torch(
    emissions: List[Floats2d], scores: CRFScores, *, requires_grad: bool = False
) -> Tuple[torch.Tensor, torch.Tensor]:
    joined = get_array_module(scores.transitions).concatenate(emissions)
    return xp2torch(joined, requires_grad=requires_grad), xp2torch(scores.transitions, requires_grad=requires_grad)


def _constrain(transitions: torch.Tensor) -> torch.Tensor:
    allowed = torch.from_numpy(allowed_transitions(len(transitions) - 1))
    return transitions.masked_fill(~allowed.to(transitions.device), FORBIDDEN)


def _split(array: Any, lengths: List[int]) -> List[Any]:
    ends = list(accumulate(lengths))
    return [array[end - length : end] for end, length in zip(ends, lengths)]


def _refuse_component(*args: Any) -> NoReturn:
    """RAISES (ValueError): Always, since the component is another one than `crf_ner`."""
    raise ValueError(
        "A component has the model spacy-elmo.CRFTagger.v1, but is not a 'crf_ner': only that component tells "
        'the CRF how many tags it has. Set factory = "crf_ner" in the block of the component, or give it '
        "another model."
    )
