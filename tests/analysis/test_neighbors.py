"""Neighbors of a word, by layer, choice of uses, and fields of documents."""

from dataclasses import replace
from datetime import date

import numpy as np
import pytest
import torch

from spacy_elmo.analysis.neighbors import NeighborIndex
from spacy_elmo.analysis.sense_map import cluster_uses
from spacy_elmo.analysis.token_store import Use

from .indexes import (
    BILM,
    add_documents,
    build_index,
    describe_index,
    make_document,
    make_sentences,
    make_texts,
    needs_faiss,
)


def test_index_has_every_token(exact):
    sentences = {"a": make_sentences(20, 1), "b": make_sentences(30, 2)}
    expected = sorted((name, s, i) for name, some in sentences.items() for s in some for i in range(len(s)))
    found = describe_index(exact.path)
    assert found["uses"] == expected
    assert exact.n_tokens == len(expected) == sum(exact.words.values()) and exact.n_documents == 2
    assert exact.layer == 2 and exact.bilm_digest == BILM.digest


@pytest.mark.parametrize("layer", [1, "mean"])
def test_vectors_are_those_of_the_layer(tmp_path, layer):
    sentences = make_sentences(12)
    build_index(tmp_path / "index", BILM, {"a": sentences}, layer=layer)
    index = NeighborIndex.open(tmp_path / "index")
    uses, vectors = index.uses("bank")
    expected = [BILM.embed([use.words], layers=layer)[0][use.position] for use in uses]
    units = np.stack(expected) / np.linalg.norm(expected, axis=1, keepdims=True)
    assert len(uses) > 3
    np.testing.assert_allclose(vectors, units, atol=1e-3)


def test_find_gives_the_most_similar_uses_of_a_choice(exact):
    words = make_sentences(20, 1)[3]
    found = exact.find(BILM, words, 1, k=5)
    assert found[0].use == Use(words[1], words, 1, "a") and found[0].cosine == pytest.approx(1, abs=1e-3)
    assert [one.cosine for one in found] == sorted((one.cosine for one in found), reverse=True)
    same, other = (exact.find(BILM, words, 1, k=200, uses=uses) for uses in ("same", "other"))
    assert {one.use.word for one in same} == {words[1]} and len(same) == exact.words[words[1]]
    assert words[1] not in {one.use.word for one in other} and len(other) == 200
    assert exact.find(BILM, [words[0].upper()], 0, uses="same") != []
    assert exact.query(np.ones(16), word="nowhere") == []
    with pytest.raises(ValueError, match="Unknown choice of uses"):
        exact.find(BILM, words, 1, uses="none")
    with pytest.raises(ValueError, match="EL018"):
        exact.find(BILM, words, 99)
    for vector in (np.ones(3), np.zeros(16), np.full(16, np.nan), np.ones((2, 16))):
        with pytest.raises(ValueError, match="The vector of a query"):
            exact.query(vector)
    with pytest.raises(ValueError, match="could not convert string to float: 'a'"):
        exact.query(["a"] * 16)


def test_vectors_of_any_kind_can_be_queried_and_clustered(exact):
    uses, vectors = exact.uses("bank", 8)
    wanted, tensor = [one.use for one in exact.query(vectors[0], 3)], torch.from_numpy(vectors)
    for of_kind in (tensor.clone().requires_grad_(), tensor.bfloat16(), vectors.astype("float16"), vectors.tolist()):
        assert [one.use for one in exact.query(of_kind[0], 3)] == wanted
        for several in (of_kind, list(of_kind)):
            assert cluster_uses(uses, several, 2).sizes == cluster_uses(uses, vectors, 2).sizes


def test_a_field_can_be_asked_for_by_values_of_numpy_and_dates(tmp_path):
    document = make_document("a", make_sentences(5))
    fields = {"year": 1850, "is_old": True, "day": date(1850, 5, 1)}
    add_documents(tmp_path, [replace(document, fields=fields)], *fields)
    with NeighborIndex.open(tmp_path) as index:
        days = ["1850-05-01"], [date(1850, 5, 1)], np.array(["1850-05-01"], dtype="datetime64[D]")
        years = [np.int64(1850)], np.array([1850.0])
        for field, values in (*(("year", year) for year in years), ("is_old", [True]), *(("day", day) for day in days)):
            assert len(index.query(np.ones(16), 3, where=(field, values))) == 3


@pytest.mark.parametrize("exact_tokens", [10**6, pytest.param(100, marks=needs_faiss)])
def test_fields_of_documents_are_stored_and_restrict_a_search(tmp_path, exact_tokens):
    documents = make_texts(30, year=lambda i: 1840 + i % 3, text=lambda i: "left out")
    add_documents(tmp_path / "index", documents, "year", exact_tokens=exact_tokens)
    with NeighborIndex.open(tmp_path / "index") as index:
        uses, vectors = index.uses("target")
        assert (index.search is None) == (exact_tokens > 100)
        assert index.values_of(uses, "year") == [1840 + int(use.document) % 3 for use in uses]
        assert index.values_of(uses, "document") == [use.document for use in uses]
        for where, n in ((("year", [1840]), 10), (("year", [1840, 1842]), 20), (("document", ["4"]), 1)):
            documents = [use.document for use in uses if index.values_of([use], where[0])[0] in where[1]]
            found = index.query(vectors[0], 50, word="target", where=where)
            assert sorted(one.use.document for one in found) == sorted(documents) and len(documents) == n
            others = index.query(vectors[0], 500, exclude="target", where=where)
            assert {one.use.document for one in others} == set(documents)
            assert "target" not in {one.use.word for one in others}
        assert index.query(vectors[0], where=("year", ["1840"])) == []  # a text is not a number
        with pytest.raises(ValueError, match="has a field 'text'.*Choose one of: document, year"):
            index.query(vectors[0], where=("text", ["a"]))
