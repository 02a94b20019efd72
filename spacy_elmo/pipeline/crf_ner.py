"""The component `crf_ner`: named entities by a CRF over any tok2vec, as in Peters et al. (2018), sec. 4."""

import math
import warnings
from collections.abc import Mapping
from itertools import islice
from typing import Any, Callable, Container, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import numpy
from spacy.attrs import ENT_IOB
from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.scorer import get_ner_prf
from spacy.tokens import Doc, Span
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer

from ..errors import Errors, Warnings
from ..inference.runtime import register_fork_handlers
from ..util import MAX_VALUE, shorten
from .checks import check_examples_have_words, check_model
from .crf import (
    CRFScores,
    Entity,
    Integers,
    Mask,
    compute_loss,
    decode_entities,
    decode_tags,
    encode_entities,
    find_words,
    set_label_count,
)

# spaCy's own layer gives a vector for each token; any other does.
DEFAULT_TOK2VEC = {
    **{"@architectures": "spacy.HashEmbedCNN.v2", "pretrained_vectors": None, "width": 96, "depth": 4},
    **{"embed_size": 2000, "window_size": 1, "maxout_pieces": 3, "subword_features": True},
}
N_INITIALIZATION_DOCS = 10  # Docs that the model is initialized with
IN_ENTITY, BEGINS_ENTITY = 1, 3  # values of ENT_IOB; 3 without a label is a blocked token


@Language.factory(
    "crf_ner",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_config={
        "scorer": {"@scorers": "spacy.ner_scorer.v1"},
        "model": {"@architectures": "spacy-elmo.CRFTagger.v1", "tok2vec": DEFAULT_TOK2VEC},
    },
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)
def make_crf_ner(
    nlp: Language, name: str, model: Model[List[Doc], CRFScores], scorer: Optional[Callable[..., Any]]
) -> "CRFNer":
    """Named entities by a conditional random field, as in Peters et al. (2018), sec. 4; used like spaCy's `ner`.

    nlp (Language): The pipeline.
    name (str): The component's name in it.
    model (Model[List[Doc], CRFScores]): See `spacy-elmo.CRFTagger.v1`.
    scorer (Optional[Callable]): Scores Docs; null for none.
    RETURNS (CRFNer): The component.
    """
    return CRFNer(nlp.vocab, model, name, scorer=scorer)


class CRFNer(TrainablePipe):  # type: ignore[misc]  # spaCy's class is compiled and has no types
    """Finds named entities: the most probable sequence of BILUO tags over the words of a Doc.

    The whole Doc is one chain, whatever sentence boundaries it has, and white space is left out of it.

    RAISES (ValueError): For a model of another kind.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model[List[Doc], CRFScores],
        name: str = "crf_ner",
        *,
        scorer: Optional[Callable[..., Any]] = get_ner_prf,
    ) -> None:
        self.vocab = vocab
        self.model = model
        self.name = name
        self.scorer = scorer
        self.cfg: Dict[str, Any] = {"labels": []}
        self._has_checked_labels = False  # those of the training examples
        check_model(name, model, bool(model.has_ref("crf")), "spacy-elmo.CRFTagger.v1")
        register_fork_handlers()

    @property
    def labels(self) -> Tuple[str, ...]:
        """RETURNS (Tuple[str, ...]): The labels, in the order of their tags."""
        return tuple(self.cfg["labels"])

    @property
    def label_data(self) -> Tuple[str, ...]:
        """RETURNS (Tuple[str, ...]): What `spacy init labels` writes and `initialize` takes."""
        return self.labels

    def add_label(self, label: str) -> int:
        """label (str): A label to add, before the component is initialized.
        RETURNS (int): 1, or 0 for a known label.
        RAISES (ValueError): If it is not a text, if the component is initialized.
        """
        if not isinstance(label, str) or not label:
            raise ValueError(
                f"The label of '{self.name}' is {label!r}, should be a text that is not empty. Correct the label."
            )
        if label in self.labels:
            return 0
        if self.model.get_ref("crf").has_dim("nO"):
            raise ValueError(
                f"The label '{label}' cannot be added to '{self.name}', which is initialized with the labels "
                f"{', '.join(self.labels)}: its CRF has scores for these only. Add all labels before "
                "`nlp.initialize`, or add a new component."
            )
        self.cfg["labels"].append(label)
        self.vocab.strings.add(label)
        return 1

    # Prediction

    def predict(self, docs: Iterable[Doc]) -> List[List[Entity]]:
        """docs (Iterable[Doc]): The Docs. Entities and blocked tokens that they have already are kept.
        RETURNS (List[List[Entity]]): First token, token after the last one, and label of each entity of each Doc.
        RAISES (ValueError): EL098 if the component is not initialized.
        """
        if not self.model.get_ref("crf").has_param("transitions"):
            raise ValueError(Errors.EL098.format(name=self.name))
        docs = list(docs)
        words = [find_words(doc) for doc in docs]
        if not any(map(len, words)):
            return [[] for _ in docs]
        known = [_encode_preset(doc, doc_words, self.labels) for doc, doc_words in zip(docs, words)]
        tags = decode_tags(self.model.predict(docs), words, known)
        return [decode_entities(doc_words, places, self.labels) for doc_words, places in zip(tags, words)]

    def set_annotations(self, docs: Iterable[Doc], scores: Sequence[Sequence[Entity]]) -> None:
        """Set the entities from `predict`."""
        for doc, entities in zip(docs, scores):
            is_preset = _find_preset(doc)
            # Without those that span a preset token: it may be white space, which the model does not read.
            spans = [Span(doc, *entity) for entity in entities if not is_preset[entity[0] : entity[1]].any()]
            is_free = ~is_preset
            for span in spans:
                is_free[span.start : span.end] = False
            outside = [doc[i : i + 1] for i in numpy.flatnonzero(is_free).tolist()] if is_preset.any() else None
            doc.set_ents(spans, outside=outside, default="unmodified" if is_preset.any() else "outside")

    # Training

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Optional[Language] = None,
        labels: Any = None,
    ) -> None:
        """Collect labels, and initialize the model for them.

        labels (Optional[Iterable[str]]): The labels; None for those of the entities in the examples. Labels that were
            added before stay. A warning if no entity in the examples has any of them.
        RAISES (ValueError): If there is no word to train on, if `labels` is a text or a mapping, if there is no label,
            for a label that is new to an initialized component.
        """
        if callable(get_examples):
            check_examples_have_words(get_examples, nlp, self.name)
        validate_get_examples(get_examples, "CRFNer.initialize")
        reason = "the given list of labels is empty"
        if labels is None:
            collected, n_examples = _collect_entity_labels(get_examples())
            labels = sorted(collected)
            reason = f"no entity in the {n_examples} training examples"
        elif isinstance(labels, (str, bytes, Mapping)) or not isinstance(labels, Iterable):
            raise ValueError(
                f"The labels of '{self.name}' are {_shorten_value(labels)}, should be a list of texts, as `spacy init "
                "labels` writes it for a component 'crf_ner' (that of 'ner' has the actions of a transition "
                f"system). Correct [initialize.components.{self.name}.labels], or remove it to collect the "
                "labels from the training data."
            )
        else:
            labels = list(labels)
            _warn_of_unused(self.name, labels, get_examples())
        for label in labels:
            self.add_label(label)
        if not self.labels:
            raise ValueError(
                f"The component '{self.name}' has no labels: {reason}. Annotate entities (doc.ents), or give "
                f"the labels: `add_label` before `nlp.initialize`, or [initialize.components.{self.name}.labels]."
            )
        self._has_checked_labels = True
        set_label_count(self.model, len(self.labels))
        self.model.initialize(X=[eg.predicted for eg in islice(get_examples(), N_INITIALIZATION_DOCS)])

    def get_loss(self, examples: Iterable[Example], scores: CRFScores) -> Tuple[float, CRFScores]:
        """The negative log likelihood of the annotated entities, summed over Docs.

        Tokens without annotation count as no tag in particular: the likelihood sums over all tags that they may have.

        RETURNS (Tuple[float, CRFScores]): The loss and its gradient.
        RAISES (ValueError): If the loss is not a finite number. WL075 if a component that was trained before is
            trained on other labels.
        """
        examples = list(examples)
        validate_examples(examples, "CRFNer.get_loss")
        if not self._has_checked_labels:
            self._check_labels(examples)
        words = [find_words(eg.predicted) for eg in examples]
        tags = [_encode_gold(eg, doc_words, self.labels) for eg, doc_words in zip(examples, words)]
        loss, d_scores = compute_loss(scores, words, tags)
        if not math.isfinite(loss):
            raise ValueError(
                f"The loss of '{self.name}' is {loss}, should be a finite number. Lower the learning rate, or "
                "set grad_clip in [training.optimizer]."
            )
        return loss, d_scores

    def _check_labels(self, examples: Sequence[Example]) -> None:
        """Warn, once, of labels in the first batch with entities that are not those of the component: WL075."""
        labels = {ent.label_ for eg in examples for ent in eg.reference.ents}
        unknown = sorted(labels.difference(self.labels))
        self._has_checked_labels = bool(labels)
        if unknown:
            shown = {"unknown": _shorten_value(unknown), "known": _shorten_value(list(self.labels))}
            effect = "treats these spans as non-entities"
            text = Warnings.WL075.format(name=self.name, annotated="entities", effect=effect, **shown)
            warnings.warn(text, stacklevel=4)

    def rehearse(
        self,
        examples: Iterable[Example],
        *,
        sgd: Optional[Optimizer] = None,
        losses: Optional[Dict[str, float]] = None,
        **config: Any,
    ) -> Dict[str, float]:
        """RAISES (NotImplementedError): Always."""
        raise NotImplementedError(
            f"The component '{self.name}' does not support rehearsal (`nlp.rehearse`). Leave it out "
            f'(`nlp.rehearse(examples, exclude=["{self.name}"])`), and train it with `nlp.update` on old and '
            "new examples."
        )


def _collect_entity_labels(examples: Iterable[Example], enough: Container[str] = ()) -> Tuple[Set[str], int]:
    """Labels of the entities, and the number of examples read; one of the labels in `enough` ends the search."""
    collected: Set[str] = set()
    n_examples = 0
    for eg in examples:
        n_examples += 1
        collected.update(ent.label_ for ent in eg.reference.ents)
        if any(label in enough for label in collected):
            break
    return collected, n_examples


def _warn_of_unused(name: str, labels: Sequence[str], examples: Iterable[Example]) -> None:
    """Warn if the examples have entities, but no entity has any of these labels."""
    used, _ = _collect_entity_labels(examples, labels)
    if labels and used and not used.intersection(label for label in labels if isinstance(label, str)):
        warnings.warn(
            f"None of the labels given for '{name}' ({_shorten_value(labels)}) is that of an entity in the "
            f"training examples, which have {_shorten_value(sorted(used))}: it would learn to find nothing. "
            f"Correct [initialize.components.{name}.labels], or remove it to collect the labels from the "
            "training data.",
            stacklevel=3,
        )


def _shorten_value(value: Any) -> str:
    text = ", ".join(map(repr, value)) if isinstance(value, list) else repr(value)
    return shorten(text, MAX_VALUE)


def _encode_gold(eg: Example, words: Integers, labels: Sequence[str]) -> Integers:
    """RETURNS (Integers): A tag for each word of the predicted Doc; `MISSING` also where tokens cannot be aligned."""
    entities, tags = eg.get_aligned_ents_and_ner()
    is_outside = numpy.array([tag == "O" for tag in tags], dtype=bool)
    return encode_entities(_as_entities(entities), is_outside, words, labels)


def _encode_preset(doc: Doc, words: Integers, labels: Sequence[str]) -> Integers:
    """RETURNS (Integers): A tag for each word that is in an entity or blocked, `MISSING` for other words."""
    is_preset = _find_preset(doc)
    entities = _as_entities(doc.ents) if is_preset.any() else []
    return encode_entities(entities, is_preset, words, labels)


def _find_preset(doc: Doc) -> Mask:
    """RETURNS (Mask): Shape (n,), for each token whether it is in an entity or blocked."""
    if len(doc) == 0:
        return numpy.zeros(0, dtype=bool)
    mask: Mask = numpy.isin(doc.to_array(ENT_IOB), (IN_ENTITY, BEGINS_ENTITY))
    return mask


def _as_entities(spans: Iterable[Span]) -> List[Entity]:
    return [(span.start, span.end, span.label_) for span in spans]
