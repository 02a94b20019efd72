"""The component `crf_ner`: named entities by a CRF over any tok2vec, as in Peters et al. (2018), sec. 4."""

from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple

import numpy
from spacy.attrs import ENT_IOB
from spacy.language import Language
from spacy.scorer import get_ner_prf
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

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
    set_tag_count,
)
from .labelled_pipe import DEFAULT_TOK2VEC, LabelledPipe

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


class CRFNer(LabelledPipe):
    """Finds named entities: the most probable sequence of BILUO tags over the words of a Doc.

    The whole Doc is one chain, whatever sentence boundaries it has, and white space is left out of it.

    RAISES (ValueError): For a model of another kind.
    """

    factory, spacy_factory = "crf_ner", "ner"
    architecture, layer = "spacy-elmo.CRFTagger.v1", "crf"
    annotation, attributes = "entities", "doc.ents"
    unknown_effect = "treats these spans as non-entities"

    def __init__(
        self,
        vocab: Vocab,
        model: Model[List[Doc], CRFScores],
        name: str = "crf_ner",
        *,
        scorer: Optional[Callable[..., Any]] = get_ner_prf,
    ) -> None:
        super().__init__(vocab, model, name, scorer=scorer)

    def read_labels(self, doc: Doc) -> Iterable[str]:
        """RETURNS (Iterable[str]): The labels of the entities of a Doc."""
        return (ent.label_ for ent in doc.ents)

    def set_label_count(self, n_labels: int) -> None:
        """Set the number of tags of the model."""
        set_tag_count(self.model, n_labels)

    def predict(self, docs: Iterable[Doc]) -> List[List[Entity]]:
        """docs (Iterable[Doc]): The Docs. Entities and blocked tokens that they have already are kept.
        RETURNS (List[List[Entity]]): First token, token after the last one, and label of each entity of each Doc.
        RAISES (ValueError): EL098 if the component is not initialized.
        """
        docs = list(docs)
        words = self.find_doc_words(docs)
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

    def compute_loss(self, examples: Sequence[Example], scores: CRFScores) -> Tuple[float, CRFScores]:
        """The negative log likelihood of the annotated entities, summed over Docs.

        Tokens without annotation count as no tag in particular: the likelihood sums over all tags that they may have.

        RETURNS (Tuple[float, CRFScores]): The loss and its gradient.
        """
        words = [find_words(eg.predicted) for eg in examples]
        tags = [_encode_gold(eg, doc_words, self.labels) for eg, doc_words in zip(examples, words)]
        return compute_loss(scores, words, tags)


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
