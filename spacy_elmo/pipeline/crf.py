"""A linear-chain conditional random field: partition function, loss and most probable tags.

Lafferty, McCallum and Pereira (2001): p(y | x) = exp(score(y)) / Z with
score(y) = sum_t emissions[t, y_t] + transitions[y_(t-1), y_t], where y_0 and y_(T+1) are the boundary, the last row and
column of `transitions`. Where annotation is missing, the loss sums over all tags (Tsuboi et al. 2008).

Chains of any lengths are computed together without padding: step t has a row for each chain longer than t, the longest
chain first. Everything is in float64, since scores grow with the length of a chain.
"""

from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Callable, Iterable, List, NamedTuple, NoReturn, Sequence, Tuple

import numpy
import torch
from numpy.typing import NDArray
from spacy.attrs import IS_SPACE
from spacy.tokens import Doc
from thinc.api import Linear, Model, chain, get_array_module, with_array, zero_init
from thinc.types import Floats2d
from thinc.util import torch2xp, xp2torch
from torch import Tensor

from ..inference.runtime import isolated

FORBIDDEN = -1e4  # a score so low that its exponential is 0
SMALLEST = 1e-300  # of a sum of exponentials, so that its logarithm is finite


def negative_log_likelihood(
    emissions: Tensor, lengths: Sequence[int], transitions: Tensor, admissible: Tensor
) -> Tensor:
    """Loss of each chain: log Z minus the logarithm of the same sum over the sequences that the annotation admits.

    emissions (Tensor): Shape (T, K), scores of K tags for the tokens of all chains.
    lengths (Sequence[int]): Tokens of each chain, at least 1; they sum to T.
    transitions (Tensor): Shape (K+1, K+1), from row to column; `FORBIDDEN` where a transition is not allowed.
    admissible (Tensor): Shape (T, K), bool: the tags that the annotation leaves open, one if a token is annotated, all
        if its annotation is missing.
    RETURNS (Tensor): Shape (B,).
    """
    annotated = emissions.masked_fill(~admissible, FORBIDDEN)
    both = log_partition(torch.cat([emissions, annotated]), [*lengths, *lengths], transitions)
    log_z, log_annotated = both.chunk(2)
    return log_z - log_annotated


def log_partition(emissions: Tensor, lengths: Sequence[int], transitions: Tensor) -> Tensor:
    """The forward algorithm: log Z = log sum_y exp(score(y)), shape (B,). Arguments as of `negative_log_likelihood`."""
    weights = transitions.double().exp()
    plan = _plan_steps(lengths)
    alphas = _run(emissions, plan, transitions, lambda alpha: _log_product(alpha, weights[:-1, :-1]))
    totals = _log_product(_take_last(alphas), weights[:-1, -1:]).squeeze(1)  # (B,)
    return totals[plan.order.argsort().to(totals.device)]


def find_best_tags(emissions: Tensor, lengths: Sequence[int], transitions: Tensor) -> Tensor:
    """The Viterbi algorithm: argmax_y score(y), shape (T,). Arguments as of `negative_log_likelihood`.

    Backtracking computes the best previous tag again, which is faster than storing backpointers in the forward pass.
    """
    transitions = transitions.double()
    inner, plan = transitions[:-1, :-1], _plan_steps(lengths)
    alphas = _run(emissions, plan, transitions, lambda alpha: (alpha[:, :, None] + inner).amax(dim=1))
    tags = (_take_last(alphas) + transitions[:-1, -1]).argmax(dim=1)  # (B,), the last tag of each chain
    steps = [tags[: len(alphas[-1])].clone()]
    for alpha, after in zip(alphas[-2::-1], alphas[:0:-1]):
        n_chains = len(after)
        tags[:n_chains] = (alpha[:n_chains] + inner.T[tags[:n_chains]]).argmax(dim=1)
        steps.append(tags[: len(alpha)].clone())
    best = torch.cat(steps[::-1])  # (T,), step after step
    return torch.empty_like(best).scatter_(0, plan.rows.to(best.device), best)


class _Steps(NamedTuple):
    """How chains are computed together.

    rows (Tensor): Shape (T,), the rows of `emissions` step after step.
    n_active (List[int]): How many of them belong to each step.
    order (Tensor): Shape (B,), the chains from the longest to the shortest.
    """

    rows: Tensor
    n_active: List[int]
    order: Tensor


def _plan_steps(lengths: Sequence[int]) -> _Steps:
    sizes = torch.tensor(lengths)
    starts = sizes.cumsum(0) - sizes
    order = sizes.argsort(descending=True, stable=True)
    sizes, starts = sizes[order], starts[order]
    times = torch.arange(int(sizes.sum())) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    rows = (starts.repeat_interleave(sizes) + times)[times.argsort(stable=True)]
    return _Steps(rows, times.bincount().tolist(), order)


def _run(emissions: Tensor, plan: _Steps, transitions: Tensor, advance: Callable[[Tensor], Tensor]) -> List[Tensor]:
    """Score each tag with what is before it: alpha_t = advance(alpha_(t-1)) + emissions_t, each of shape (n, K)."""
    first, *later = emissions.double()[plan.rows.to(emissions.device)].split(plan.n_active)
    alphas = [transitions.double()[-1, :-1] + first]
    for step in later:
        alphas.append(advance(alphas[-1][: len(step)]) + step)
    return alphas


def _take_last(alphas: List[Tensor]) -> Tensor:
    """RETURNS (Tensor): Shape (B, K), alpha of the last token of each chain, in the order of the plan."""
    n_longer = [*(len(alpha) for alpha in alphas[1:]), 0]
    return torch.cat([alpha[n:] for alpha, n in zip(alphas[::-1], n_longer[::-1])])


def _log_product(alpha: Tensor, weights: Tensor) -> Tensor:
    """log(exp(alpha) @ weights), without overflow."""
    top = alpha.detach().amax(dim=1, keepdim=True)
    return top + ((alpha - top).exp() @ weights).clamp(min=SMALLEST).log()


MISSING, OUTSIDE = -1, 0
# Tags of label i are 1 + 4i and the three after it.
BEGIN, INSIDE, LAST, UNIT = range(4)
N_KINDS = 4

Integers = NDArray[numpy.int64]
Mask = NDArray[numpy.bool_]
Entity = Tuple[int, int, str]  # first token, token after the last one, label


def find_words(doc: Doc) -> Integers:
    """RETURNS (Integers): The tokens that are not white space."""
    if len(doc) == 0:
        return numpy.zeros(0, dtype="int64")
    return numpy.flatnonzero(doc.to_array(IS_SPACE) == 0)


def allowed_transitions(n_tags: int) -> Mask:
    """Shape (K+1, K+1), from row to column; the boundary comes last, and is like a word outside."""
    tags = numpy.arange(1, n_tags)
    kinds = numpy.concatenate([[UNIT], (tags - 1) % N_KINDS, [UNIT]])  # a word outside connects as a unit does
    labels = numpy.concatenate([[-1], (tags - 1) // N_KINDS, [-1]])
    opens, continues = numpy.isin(kinds, (BEGIN, INSIDE)), numpy.isin(kinds, (INSIDE, LAST))
    has_one_label = labels[:, None] == labels[None]
    fits = opens[:, None] == continues[None]
    allowed: Mask = fits & (has_one_label | ~opens[:, None])
    return allowed


def encode_entities(entities: Iterable[Entity], is_outside: Mask, words: Integers, labels: Sequence[str]) -> Integers:
    """Tag the words of a Doc, `MISSING` for those that are neither in an entity nor known to be outside.

    entities (Iterable[Entity]): Entities that do not overlap. Those of other labels count as outside.
    is_outside (Mask): Shape (n,), for each token of the Doc whether it is known to be outside of entities.
    words (Integers): See `find_words`.
    labels (Sequence[str]): The labels, in the order of their tags.
    """
    places = {label: i for i, label in enumerate(labels)}
    tags = numpy.where(is_outside[words], OUTSIDE, MISSING)
    for start, end, label in entities:
        first, last = numpy.searchsorted(words, (start, end))
        tags[first:last] = _tag_words(int(last - first), 1 + N_KINDS * places[label]) if label in places else OUTSIDE
    return tags


def decode_entities(tags: Integers, words: Integers, labels: Sequence[str]) -> List[Entity]:
    """The entities of a Doc, in its order; tags, labels and words are as of `encode_entities`, and the tags respect
    `allowed_transitions`.
    """
    entities, start = [], 0
    for i in numpy.flatnonzero(tags).tolist():
        label, kind = divmod(int(tags[i]) - 1, N_KINDS)
        if kind in (BEGIN, UNIT):
            start = int(words[i])
        if kind in (LAST, UNIT):
            entities.append((start, int(words[i]) + 1, labels[label]))
    return entities


def _admissible_tags(tags: Integers, n_tags: int) -> Mask:
    """Shape (words, K): the tag of each word, or all K tags where it is `MISSING`."""
    mask: Mask = (tags[:, None] == MISSING) | (tags[:, None] == numpy.arange(n_tags))
    return mask


def _tag_words(n_words: int, begin: int) -> List[int]:
    if n_words < 2:
        return [begin + UNIT] * n_words
    return [begin + BEGIN, *[begin + INSIDE] * (n_words - 2), begin + LAST]


@dataclass(frozen=True)
class CRFScores:
    """The scores of tags and of their transitions, or their gradient.

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
    model.attrs["resize_output"] = _raise_not_crf_ner  # what spaCy's `ner` and `parser` call first
    return model


def set_tag_count(model: Model[List[Doc], CRFScores], n_labels: int) -> None:
    """Set the number of entity labels of a `CRFTagger`, before it is initialized."""
    for name in ("emit", "crf"):
        model.get_ref(name).set_dim("nO", 1 + N_KINDS * n_labels)


def init(model: Model[List[Floats2d], CRFScores], X: Any = None, Y: Any = None) -> None:
    """Set all transitions to zero. ValueError if no component has set the number of tags."""
    if not model.has_dim("nO"):
        _raise_not_crf_ner()
    n_tags = model.get_dim("nO")
    model.set_param("transitions", model.ops.alloc2f(n_tags + 1, n_tags + 1))


def forward(
    model: Model[List[Floats2d], CRFScores], emissions: List[Floats2d], is_train: bool
) -> Tuple[CRFScores, Callable[[CRFScores], List[Floats2d]]]:
    """The emissions with the transitions; the callback takes the gradient of both."""

    def backprop(d_scores: CRFScores) -> List[Floats2d]:
        model.inc_grad("transitions", d_scores.transitions)
        return d_scores.emissions

    return CRFScores(emissions, model.get_param("transitions")), backprop


@isolated
def compute_loss(scores: CRFScores, words: Sequence[Integers], tags: Sequence[Integers]) -> Tuple[float, CRFScores]:
    """The negative log likelihood of annotated tags, summed over Docs, and its gradient.

    words (Sequence[Integers]): The words of each Doc, see `find_words`.
    tags (Sequence[Integers]): Their tags, `MISSING` to sum over all tags. A Doc with nothing else has no loss.
    """
    xp = get_array_module(scores.transitions)
    d_scores = CRFScores([xp.zeros_like(array) for array in scores.emissions], xp.zeros_like(scores.transitions))
    with_tags = [i for i, doc_tags in enumerate(tags) if (doc_tags != MISSING).any()]
    if not with_tags:
        return 0.0, d_scores
    emissions, transitions = _to_torch([scores.emissions[i][words[i]] for i in with_tags], scores, requires_grad=True)
    n_tags = emissions.shape[1]
    admissible = torch.from_numpy(_admissible_tags(numpy.concatenate([tags[i] for i in with_tags]), n_tags))
    with torch.enable_grad():
        losses = negative_log_likelihood(
            emissions, [len(words[i]) for i in with_tags], _constrain(transitions), admissible.to(emissions.device)
        )
        loss = losses.sum()
        d_emissions, d_transitions = torch.autograd.grad(loss, [emissions, transitions])
    d_scores.transitions[:] = torch2xp(d_transitions)
    for i, array in zip(with_tags, _split_rows(torch2xp(d_emissions), [len(words[i]) for i in with_tags])):
        d_scores.emissions[i][words[i]] = array
    return float(loss.detach()), d_scores


@isolated
def decode_tags(scores: CRFScores, words: Sequence[Integers], tags: Sequence[Integers]) -> List[Integers]:
    """Find the most probable tag of each word of each Doc.

    words (Sequence[Integers]): See `find_words`.
    tags (Sequence[Integers]): Tags that are known already, `MISSING` for those to find.
    """
    decoded = list(tags)
    with_words = [i for i, known in enumerate(tags) if len(known)]
    if not with_words:
        return decoded
    emissions, transitions = _to_torch([scores.emissions[i][words[i]] for i in with_words], scores)
    known = numpy.concatenate([tags[i] for i in with_words])
    lengths = [len(words[i]) for i in with_words]
    with torch.no_grad():
        if (known != MISSING).any():
            admissible = torch.from_numpy(_admissible_tags(known, emissions.shape[1]))
            emissions = emissions.masked_fill(~admissible.to(emissions.device), FORBIDDEN)
        best = find_best_tags(emissions, lengths, _constrain(transitions)).cpu().numpy()
    for i, doc_tags in zip(with_words, _split_rows(best, lengths)):
        decoded[i] = doc_tags
    return decoded


def _to_torch(
    emissions: List[Floats2d], scores: CRFScores, *, requires_grad: bool = False
) -> Tuple[torch.Tensor, torch.Tensor]:
    joined = get_array_module(scores.transitions).concatenate(emissions)
    return xp2torch(joined, requires_grad=requires_grad), xp2torch(scores.transitions, requires_grad=requires_grad)


def _constrain(transitions: torch.Tensor) -> torch.Tensor:
    allowed = torch.from_numpy(allowed_transitions(len(transitions) - 1))
    return transitions.masked_fill(~allowed.to(transitions.device), FORBIDDEN)


def _split_rows(array: Any, lengths: List[int]) -> List[Any]:
    ends = list(accumulate(lengths))
    return [array[end - length : end] for end, length in zip(ends, lengths)]


def raise_other_component(architecture: str, factory: str, *args: Any) -> NoReturn:
    """RAISES (ValueError): Always: it is called by components of other factories."""
    raise ValueError(
        f"A component has the model {architecture}, but is not a '{factory}': only that component sets the number of "
        f'labels. Set factory = "{factory}" in the block of the component, or give it another model.'
    )


_raise_not_crf_ner = partial(raise_other_component, "spacy-elmo.CRFTagger.v1", "crf_ner")
