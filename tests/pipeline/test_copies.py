"""spaCy's functions that pass Docs which no ELMo component has read: entity linker, rehearsal, `debug model`."""

import pickle

import numpy
import pytest
import spacy
from spacy.cli.debug_model import debug_model
from spacy.kb import InMemoryLookupKB
from spacy.schemas import ConfigSchemaTraining
from spacy.tokens import DocBin
from spacy.training import Example
from spacy.util import registry

from .placements import task_encoder
from .test_listener import CNN, TOK2VECS, get_bilm_weights, listeners_of, tagger_with, train
from .tiny import LISTENER, add_elmo, make_examples

NORMED = {**LISTENER, "layer_norm": "token"}


def make_kb(vocab):
    kb = InMemoryLookupKB(vocab, entity_vector_length=3)
    for entity, vector in (("Q1", [1, 0, 0]), ("Q2", [0, 1, 0])):
        kb.add_entity(entity=entity, freq=10, entity_vector=vector)
    kb.add_alias(alias="bank", entities=["Q1", "Q2"], probabilities=[0.5, 0.5])
    return kb


def make_links(nlp):
    texts = [("She sat on the bank of the river. It was late.", "Q1"), ("The bank raised its rates. We paid.", "Q2")]
    examples = []
    for text, entity in texts:
        doc = nlp.make_doc(text)
        start = text.index("bank")
        links = {(start, start + 4): {entity: 1.0, "Q1" if entity == "Q2" else "Q2": 0.0}}
        starts = [1 if i == 0 or doc[i - 1].text == "." else -1 for i in range(len(doc))]
        record = {"entities": [(start, start + 4, "THING")], "links": links, "sent_starts": starts}
        examples.append(Example.from_dict(doc, record))
    return examples


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize(
    "tok2vec", [NORMED, TOK2VECS["with elmo"], task_encoder(), CNN], ids=["listener", "joined", "task encoder", "own"]
)
def test_entity_linker_learns(tok2vec, frozen):
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    add_elmo(nlp, model={"frozen": frozen})
    nlp.config["training"]["annotating_components"] = ["elmo"] if tok2vec is CNN else []
    nlp.add_pipe("sentencizer", first=True)
    linker = nlp.add_pipe("entity_linker", config={"model": {"tok2vec": tok2vec}, "incl_prior": False})
    linker.set_kb(make_kb)
    optimizer = nlp.initialize(lambda: make_links(nlp))
    optimizer.learn_rate = 0.02
    before = get_bilm_weights(nlp)
    for _ in range(150):
        loss = nlp.update(make_links(nlp), sgd=optimizer, annotates=["sentencizer"])["entity_linker"]
        if loss < 0.05:
            break
    assert loss < 0.05
    assert (tok2vec is CNN or frozen) == all((get_bilm_weights(nlp)[key] == old).all() for key, old in before.items())
    for eg, wanted in zip(make_links(nlp), ("Q1", "Q2")):
        doc = eg.predicted
        doc.ents = [doc.char_span(ent.start_char, ent.end_char, label="THING") for ent in eg.reference.ents]
        assert nlp(doc).ents[0].kb_id_ == wanted


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("norm", ["token", None])
def test_rehearsal(frozen, norm):
    nlp = tagger_with({**LISTENER, "layer_norm": norm}, model={"frozen": frozen})
    train(nlp)
    optimizer = nlp.resume_training()
    train(nlp, sgd=optimizer)
    bilm = get_bilm_weights(nlp)
    raw = [Example.from_dict(nlp.make_doc(text), {}) for text in ("Rivers rise", "She left the bank")]
    for _ in range(3):
        losses = nlp.rehearse(raw, sgd=optimizer)
    assert numpy.isfinite(losses["tagger"]) and losses["tagger"] > 0
    assert all((bilm[key] == value).all() for key, value in get_bilm_weights(nlp).items())
    train(nlp, sgd=optimizer)


@pytest.mark.parametrize("tok2vec", [LISTENER, task_encoder()], ids=["listener", "task encoder"])
@pytest.mark.parametrize("frozen", [True, False])
def test_debug_model(frozen, tok2vec, tmp_path, capsys):
    nlp = tagger_with(tok2vec, model={"frozen": frozen})
    DocBin(docs=[eg.reference for eg in make_examples(nlp)]).to_disk(tmp_path / "train.spacy")
    nlp.config["corpora"]["train"]["path"] = str(tmp_path / "train.spacy")
    config = nlp.config.interpolate()
    training = registry.resolve(config["training"], schema=ConfigSchemaTraining)
    debug_model(config, training, nlp, nlp.get_pipe("tagger"))
    assert "model looks good" in capsys.readouterr().out


def without_upstream(component):
    """A component whose ELMo component is gone."""
    return pickle.loads(pickle.dumps(component))


def test_missing_layers_without_a_component_are_zeros_and_a_warning():
    nlp = tagger_with(LISTENER)
    with pytest.warns(UserWarning, match="WL060"):
        doc = without_upstream(nlp.get_pipe("tagger"))(nlp.make_doc("She sat"))
    assert doc[0].tag_ and doc[0].tag_ == doc[1].tag_


def test_training_without_layers_and_without_a_component_is_an_error():
    nlp = tagger_with(LISTENER)
    with pytest.raises(ValueError, match="EL071.*no ELMo component"):
        without_upstream(nlp.get_pipe("tagger")).update(make_examples(nlp))


@pytest.mark.parametrize("norm", ["token", "allennlp"])
def test_missing_layers_are_computed_by_the_component(norm):
    nlp = tagger_with({**LISTENER, "layer_norm": norm})
    (listener,) = listeners_of(nlp, "tagger")
    docs = [nlp.make_doc("She sat"), nlp("on the bank"), nlp.make_doc("")]
    found = listener.predict(docs)
    for one, other in zip(found, listener.predict([nlp(doc.text) for doc in docs]), strict=True):
        numpy.testing.assert_allclose(one, other, atol=1e-5)
    with nlp.select_pipes(disable=["elmo"]):
        nlp.update(make_examples(nlp))
        assert nlp("She sat")[0].tag_
