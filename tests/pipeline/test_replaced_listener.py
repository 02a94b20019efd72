"""Listeners of every kind of tok2vec: they learn, are saved, and are replaced by copies of the biLM."""

import functools
import operator

import numpy
import pytest
import spacy

from spacy_elmo.pipeline.listener import get_listeners

from .tiny import TOK2VECS, make_examples, make_tagger, train


def get_scores(nlp, name="tagger"):
    return nlp.get_pipe(name).model.predict([nlp("She sat on the bank")])[0]


def block_at(config, path):
    return functools.reduce(operator.getitem, path.split("."), config)


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("tok2vec", list(TOK2VECS))
def test_listeners_of_every_tok2vec_learn_and_are_saved_and_replaced(tok2vec, frozen, tmp_path):
    block, paths = TOK2VECS[tok2vec]
    nlp = make_tagger(block, model={"frozen": frozen})
    tagger, listeners = nlp.get_pipe("tagger"), get_listeners(nlp.get_pipe("tagger").model)
    assert nlp.get_pipe("elmo").listener_map == {"tagger": listeners} and len(listeners) == len(paths)
    nodes = [node for listener in listeners for node in listener.mix.walk()]  # the mixes and their projections
    before = [[node.get_param(name).copy() for name in node.param_names] for node in nodes]
    train(nlp)
    for node, arrays in zip(nodes, before):
        assert all((node.get_param(name) != array).any() for name, array in zip(node.param_names, arrays))
    scores = get_scores(nlp)
    other = make_tagger(block, seed=2, model={"frozen": frozen})
    assert abs(get_scores(other) - scores).max() > 1e-3
    nlp.to_disk(tmp_path / "pipeline")
    for restored in (spacy.load(tmp_path / "pipeline"), other.from_bytes(nlp.to_bytes())):
        numpy.testing.assert_allclose(get_scores(restored), scores, atol=1e-5)
        train(restored)

    given = nlp.get_pipe_config("tagger").copy()
    nlp.replace_listeners("elmo", "tagger", paths[:: 1 if frozen else -1])
    assert not nlp.get_pipe("elmo").listeners
    for path in paths:
        found, wanted = block_at(nlp.get_pipe_config("tagger"), path), block_at(given, path)
        assert found["@architectures"] == "spacy-elmo.ElmoTok2Vec.v1"
        assert all(found[name] == wanted[name] for name in wanted if name not in ("@architectures", "upstream"))
    nlp.remove_pipe("elmo")
    nlp.to_disk(tmp_path / "replaced")
    loaded, sourced = spacy.load(tmp_path / "replaced"), spacy.blank("en")
    sourced.add_pipe("tagger", source=loaded)
    for replaced in (nlp, loaded, sourced):
        numpy.testing.assert_allclose(get_scores(replaced), scores, atol=1e-5)
    before = {node.id: node.get_param("w").copy() for node in tagger.model.walk() if node.has_param("w")}
    train(nlp)
    after = {node.id: node.get_param("w") for node in tagger.model.walk() if node.id in before}
    assert [bool((after[key] != weights).any()) for key, weights in before.items()].count(True) == len(paths)
    tagger.initialize(lambda: make_examples(nlp), nlp=nlp)  # with the config that is left
    train(nlp)
