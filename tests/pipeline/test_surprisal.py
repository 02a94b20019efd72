"""The component `elmo_surprisal`: its bits are the losses of the biLM, and stay with their tokens."""

import math
import pickle
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.pipeline.model import make_random_bilm

from .tiny import BILM

TEXTS = ["She sat on the bank. The  Zzyzx bank raised its rates.", "", "  ", "Berlin"]


@pytest.fixture(scope="module")
def nlp() -> Language:
    blank = spacy.blank("en")
    blank.add_pipe("sentencizer")
    blank.add_pipe("elmo_surprisal")
    return blank


def _bits(doc: Doc) -> List[Any]:
    return [token._.elmo_surprisal for token in doc]


def test_bits_are_the_losses_of_the_sentences(nlp: Language) -> None:
    doc = nlp(TEXTS[0])
    bilm = load_bilm("en_elmo_sm")
    words = [[token.text for token in sent if not token.is_space] for sent in doc.sents]
    losses = np.concatenate([part[:, :-1] for part in bilm.token_losses(words)], axis=1) / math.log(2)
    kept = [found for token, found in zip(doc, _bits(doc)) if not token.is_space]
    assert np.abs(np.array([found[:2] for found in kept]).T - losses).max() < 1e-5
    assert all(found.mean == pytest.approx((found.forward + found.backward) / 2) for found in kept)
    assert [token.text for token, found in zip(doc, _bits(doc)) if found.is_unk] == ["Zzyzx"]
    assert [token.text for token, found in zip(doc, _bits(doc)) if math.isnan(found.mean)] == [" "]
    assert doc._.elmo_surprisal.shape == (len(doc), 2)


def test_bits_do_not_depend_on_company(nlp: Language) -> None:
    alone = [nlp(text)._.elmo_surprisal for text in TEXTS]
    together = [doc._.elmo_surprisal for doc in nlp.pipe(reversed(TEXTS * 3), batch_size=5)][::-1]
    for i, found in enumerate(together):
        np.testing.assert_allclose(found, alone[i % len(TEXTS)], atol=1e-5)


def test_saved_pipeline_needs_no_other_files(nlp: Language, tmp_path: Path) -> None:
    bilm = load_bilm("en_elmo_sm")
    save_bilm(bilm, tmp_path / "weights", dtype="float32")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("elmo_surprisal", config={"weights": str(tmp_path / "weights"), "contexts": "doc"})
    expected = pipeline(TEXTS[0])._.elmo_surprisal
    pipeline.to_disk(tmp_path / "pipeline")
    (tmp_path / "weights").rename(tmp_path / "moved")
    for again in (spacy.load(tmp_path / "pipeline"), pickle.loads(pickle.dumps(pipeline))):
        np.testing.assert_array_equal(again(TEXTS[0])._.elmo_surprisal, expected)


def test_bits_move_with_their_tokens_until_these_are_merged(nlp: Language) -> None:
    doc, other = nlp(TEXTS[0]), nlp("Rates fell.")
    joined = Doc.from_docs([other, doc])
    np.testing.assert_array_equal(joined._.elmo_surprisal[len(other) :], doc._.elmo_surprisal)
    copied = next(iter(DocBin(docs=[doc], store_user_data=True).get_docs(nlp.vocab)))
    np.testing.assert_array_equal(copied._.elmo_surprisal, doc._.elmo_surprisal)
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    with pytest.raises(ValueError, match="merged or split"):
        doc[0]._.elmo_surprisal  # noqa: B018
    assert doc[1]._.elmo_surprisal.mean > 0


@pytest.mark.parametrize("state", ["steady", "carry"])
def test_state_is_that_of_the_bilm(state: str) -> None:
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    pipeline.add_pipe("elmo_surprisal", config={"state": state})
    docs = list(pipeline.pipe(["One bank. Two banks. Three.", "", "Four."]))
    bilm = load_bilm("en_elmo_sm")
    for doc in (docs[0], docs[2]):
        words = [[token.text for token in sent] for sent in doc.sents]
        losses = np.concatenate([part[:, :-1] for part in bilm.token_losses(words, state=state)], axis=1)
        np.testing.assert_allclose(doc._.elmo_surprisal.T, losses / math.log(2), atol=1e-5)


def test_bilm_without_softmax_is_an_error(tmp_path: Path) -> None:
    save_bilm(make_random_bilm(BILM, 1), tmp_path / "weights")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("elmo_surprisal", config={"weights": str(tmp_path / "weights")})
    with pytest.raises(ValueError, match="EL007.*softmax.*surprisal"):
        pipeline("Berlin")
    with pytest.raises(ValueError, match="EL007"):
        pipeline.initialize()


def test_bits_can_be_asked_for_and_removed_as_vectors_can(nlp: Language) -> None:
    doc, without = nlp(TEXTS[0]), nlp.make_doc(TEXTS[0])
    without.user_data = {("short",): 1, "text": 2, 3: 4}
    for owner in (without, without[0]):
        assert not hasattr(owner._, "elmo_surprisal")
        with pytest.raises(ValueError, match="no surprisal"):
            owner._.elmo_surprisal  # noqa: B018
    doc.user_data[("short",)] = 1
    doc._.elmo_surprisal = None
    assert doc.user_data == {("short",): 1}
    with pytest.raises(AttributeError, match=r"cannot be set.*remove it.*`doc\._\.elmo_surprisal = None`"):
        doc._.elmo_surprisal = np.zeros(3)


def test_doc_cleaner_drops_bits() -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo_surprisal")
    nlp.add_pipe("doc_cleaner", config={"attrs": {"_.elmo_surprisal": None}})
    assert not nlp(TEXTS[0]).user_data and len(nlp("")) == 0
