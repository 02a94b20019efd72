"""Indexes of tokens: exact and approximate search, resuming, changes by document, damage, repair, closing."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import torch
from nn.tiny import make_bilm
from typer.testing import CliRunner

from spacy_elmo.analysis import index_build, token_store, vector_search
from spacy_elmo.analysis.index_build import (
    replace_index,
    start_replacement,
)
from spacy_elmo.analysis.neighbors import NeighborIndex, check_recall
from spacy_elmo.analysis.sense_map import cluster_uses
from spacy_elmo.analysis.token_store import STORE_FILE, Use
from spacy_elmo.analysis.vector_search import repair_search
from spacy_elmo.cli._app import app

from .indexes import build_index, describe_index, is_open, make_document, make_sentences, open_builder

needs_faiss = pytest.mark.skipif(not vector_search.has_faiss, reason="faiss-cpu is not installed")
needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux lists the files of a process")
BILM = make_bilm()
HOSTILE = ["a\x00b", "\x1b[31mred", "\u202eabc", "<script>", "'; DROP TABLE token; --", "\U0001f30a", "ﬀ", "%s{}"]


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    path = tmp_path_factory.mktemp("exact") / "index"
    build_index(path, BILM)
    with NeighborIndex.open(path) as index:
        yield index


@pytest.fixture(scope="module")
def approximate(tmp_path_factory):
    pytest.importorskip("faiss")
    path = tmp_path_factory.mktemp("approximate") / "index"
    build_index(path, BILM, {"a": make_sentences(150, 1), "b": make_sentences(150, 2)}, exact_tokens=100)
    with NeighborIndex.open(path) as index:
        yield index


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
    for vector in (np.ones(3), np.zeros(16), np.full(16, np.nan), np.ones((2, 16)), ["a"] * 16):
        with pytest.raises(ValueError, match="The vector of a query"):
            exact.query(vector)


def test_approximate_search_equals_exact_search_in_every_thread(exact, approximate, monkeypatch):
    monkeypatch.setattr("spacy_elmo.analysis.neighbors.EXACT_USES", 0)
    assert approximate.search is not None
    vectors = approximate.uses("river", 5)[1]
    for choice in ({}, {"word": "bank"}, {"exclude": "bank"}, {"exclude": "nowhere"}):
        found = [approximate.query(vector, 10, **choice) for vector in vectors]
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(lambda vector: approximate.query(vector, 10, **choice), vectors)) == found  # noqa: B023
        with monkeypatch.context() as patched:
            patched.setattr(approximate, "search", None)
            for vector, before in zip(vectors, found):
                after = approximate.query(vector, 10, **choice)
                assert [one.cosine for one in before] == pytest.approx([one.cosine for one in after], abs=1e-5)
    assert check_recall(exact, n_queries=5).recall == 1
    measured = check_recall(approximate, n_queries=20)
    assert measured.recall > 0.95 and measured.n_queries == 20 and measured.k == 10
    with pytest.raises(ValueError, match="whole number of 1 or more"):
        check_recall(exact, k=0)


@pytest.mark.issue(48)
def test_vectors_of_any_kind_can_be_queried_and_clustered(exact):
    uses, vectors = exact.uses("bank", 8)
    wanted, tensor = [one.use for one in exact.query(vectors[0], 3)], torch.from_numpy(vectors)
    for of_kind in (tensor.clone().requires_grad_(), tensor.bfloat16(), vectors.astype("float16"), vectors.tolist()):
        assert [one.use for one in exact.query(of_kind[0], 3)] == wanted
        for several in (of_kind, list(of_kind)):
            assert cluster_uses(uses, several, 2).sizes == cluster_uses(uses, vectors, 2).sizes


@pytest.mark.issue(48)
def test_a_field_can_be_asked_for_by_values_of_numpy_and_dates(tmp_path):
    document = make_document("a", make_sentences(5))
    fields = {"year": 1850, "is_old": True, "day": date(1850, 5, 1)}
    _add(tmp_path, [replace(document, fields=fields)], *fields)
    with NeighborIndex.open(tmp_path) as index:
        days = ["1850-05-01"], [date(1850, 5, 1)], np.array(["1850-05-01"], dtype="datetime64[D]")
        years = [np.int64(1850)], np.array([1850.0])
        for field, values in (*(("year", year) for year in years), ("is_old", [True]), *(("day", day) for day in days)):
            assert len(index.query(np.ones(16), 3, where=(field, values))) == 3


def test_build_that_was_stopped_continues(tmp_path):
    texts = {"a": make_sentences(40, 1), "b": make_sentences(10, 2)}
    build_index(tmp_path / "whole", BILM, texts)
    n_stops, is_complete = 0, False
    while not is_complete:
        builder = open_builder(tmp_path / "index", BILM)
        builder.stop()
        builder.add(make_document(name, text) for name, text in texts.items())
        is_complete = builder.n_read == 0
        builder.store.close()
        with pytest.raises(ValueError, match="EL391"):
            NeighborIndex.open(tmp_path / "index")
        n_stops += 1
    assert n_stops > 3
    build_index(tmp_path / "index", BILM, texts)
    assert describe_index(tmp_path / "index") == describe_index(tmp_path / "whole")


def _change(path, sql):
    with closing(sqlite3.connect(path / STORE_FILE)) as file, file:
        file.execute(sql)


@needs_faiss
@pytest.mark.parametrize("exact_tokens", [100, 10**6])
def test_documents_are_replaced_deleted_and_added(tmp_path, exact_tokens):
    before = {name: make_sentences(60, seed) for seed, name in enumerate("abcd")}
    after = {**before, "b": make_sentences(7, 9), "e": make_sentences(5, 10)}
    del after["c"]
    path, choices = tmp_path / "index", {"exact_tokens": exact_tokens}
    build_index(path, BILM, before, **choices)
    builder = open_builder(path, BILM, **choices)
    assert builder.delete("c") == sum(map(len, before["c"]))
    builder.add(make_document(name, text, "2" if name == "b" else "1") for name, text in after.items())
    assert (builder.n_unchanged, builder.n_replaced) == (2, 1)
    assert builder.n_read == sum(len(words) for name in "be" for words in after[name])
    builder.finish()
    with pytest.raises(ValueError, match="has no document"):
        builder.delete("c")
    builder.store.close()
    build_index(tmp_path / "anew", BILM, after, **choices)
    assert describe_index(path) == describe_index(tmp_path / "anew")
    assert len(list(path.glob("vectors-*"))) == (exact_tokens == 100)
    assert check_recall(NeighborIndex.open(path), n_queries=20).recall > 0.95


def test_index_that_is_being_written_is_locked(tmp_path, monkeypatch):
    monkeypatch.setattr(token_store, "LOCK_WAIT_S", 0.1)
    builder = open_builder(tmp_path / "index", BILM)
    for use in (NeighborIndex.open, lambda path: open_builder(path, BILM)):
        with pytest.raises(ValueError, match="EL401"):
            use(tmp_path / "index")
    builder.store.close()
    open_builder(tmp_path / "index", BILM).store.close()


@needs_faiss
@pytest.mark.parametrize("damage", [None, b"not SQLite"])
def test_index_is_replaced_at_the_end(tmp_path, monkeypatch, damage):
    monkeypatch.setattr(token_store, "LOCK_WAIT_S", 0.1)
    path, texts = tmp_path / "index", {"c": make_sentences(60, 3)}
    build_index(path, BILM, {"a": make_sentences(70, 1)}, exact_tokens=100)
    (path / "letter.txt").write_text("Dear index", encoding="utf8")
    before = describe_index(path)
    builder = open_builder(start_replacement(path), BILM, layer=1, exact_tokens=100)
    builder.add(make_document(name, text) for name, text in texts.items())
    assert describe_index(path) == before  # so it stays if this build is killed now
    with pytest.raises(ValueError, match="EL401"):
        start_replacement(path)
    builder.store.close()
    if damage is not None:
        (path / STORE_FILE).write_bytes(damage)
    new = start_replacement(path)
    build_index(new, BILM, texts, layer=1, exact_tokens=100)
    if damage is None:
        locked = open_builder(path, BILM)
        with pytest.raises(ValueError, match="EL401"):
            replace_index(path, new)
        locked.store.close()
    replace_index(path, new)
    build_index(tmp_path / "whole", BILM, texts)
    assert describe_index(path) == describe_index(tmp_path / "whole") and NeighborIndex.open(path).layer == 1
    assert sorted(file.name[:7] for file in path.iterdir()) == ["letter.", "tokens.", "vectors"]


@pytest.mark.parametrize("content", [None, b"not SQLite" * 1000, "another table"])
def test_folder_that_is_no_index(tmp_path, content):
    (tmp_path / "letter.txt").write_text("Dear index", encoding="utf8")
    if content == "another table":
        _change(tmp_path, "CREATE TABLE other (x)")
    elif content is not None:
        (tmp_path / STORE_FILE).write_bytes(content)
    for path in (tmp_path, tmp_path / "absent", tmp_path / "letter.txt"):
        with pytest.raises(ValueError, match="EL390"):
            NeighborIndex.open(path)
    if content is None:
        with pytest.raises(ValueError, match="EL390"):
            open_builder(start_replacement(tmp_path), BILM)
    assert (tmp_path / "letter.txt").read_text(encoding="utf8") == "Dear index"


def test_damaged_index(tmp_path):
    path = tmp_path / "index"
    build_index(path, BILM)
    _change(path, "UPDATE token SET vector = x'00' WHERE id = 5")
    with NeighborIndex.open(path) as index, pytest.raises(ValueError, match="EL392.*1 bytes"):
        index.query(np.ones(16))
    _change(path, "DELETE FROM token WHERE id = 5")
    assert not repair_search(path, exact_tokens=100)  # lost vectors are not hidden by a new file
    for _ in range(2):
        with pytest.raises(ValueError, match="EL392") as caught:  # whose traceback has the frames of the reading
            NeighborIndex.open(path)
        assert caught.tb is not None and (not Path("/proc/self/fd").is_dir() or not is_open(path))
        content = (path / STORE_FILE).read_bytes()
        (path / STORE_FILE).write_bytes(content[: len(content) // 2])


def test_without_faiss(approximate, tmp_path, monkeypatch):
    monkeypatch.setattr(vector_search, "has_faiss", False)
    with pytest.raises(ValueError, match="tokens needs Faiss"):
        NeighborIndex.open(approximate.path)
    monkeypatch.setattr(index_build, "has_faiss", False)
    build_index(tmp_path / "small", BILM)
    with pytest.raises(ValueError, match="tokens needs Faiss"):
        build_index(tmp_path / "large", BILM, exact_tokens=100)


def test_any_text_is_stored_as_it_is(tmp_path):
    build_index(tmp_path, BILM, {"\x1b[31m": [HOSTILE, ["x"] * 1200]})
    with NeighborIndex.open(tmp_path) as index:
        for position, word in enumerate(HOSTILE):
            assert index.uses(word)[0] == [Use(word, HOSTILE, position, "\x1b[31m")]
        assert index.uses("\ud800")[0] == [] and index.words["x"] == 1200


@needs_faiss
@pytest.mark.parametrize("way", ["repaired", "command", "finished"])
def test_lost_search_file_is_made_again(tmp_path, way):
    texts, path = {"a": make_sentences(80, 1), "b": make_sentences(4, 2)}, tmp_path / "index"
    build_index(path, BILM, texts, exact_tokens=100)
    (file,) = path.glob("vectors-*")
    file.write_bytes(file.read_bytes()[:-9]) if way == "command" else file.unlink()
    leftover = path / "vectors-1-1.faiss.part"  # of a killed process
    leftover.touch()
    problem = "has changed" if way == "command" else "is missing"
    with pytest.raises(ValueError, match=f"EL406.*{problem}.*index .* makes the file again"):
        NeighborIndex.open(path)
    if way == "repaired":
        assert repair_search(path, exact_tokens=100) and not repair_search(path, exact_tokens=100)
    elif way == "command":
        result = CliRunner().invoke(app, ["index", str(path)])
        assert result.exit_code == 0 and "Made the search file again" in result.stderr, result.output
    else:
        builder = open_builder(path, BILM, exact_tokens=100)
        builder.delete("b")
        builder.finish()
        builder.store.close()
    assert not leftover.exists()
    index = NeighborIndex.open(path)
    assert way == "command" or index.search is not None and index.search.ntotal == index.n_tokens
    assert check_recall(index, n_queries=20).recall > 0.95


@needs_proc
@pytest.mark.issue(37)
@pytest.mark.parametrize("make", [NeighborIndex.open, lambda path: open_builder(path, BILM)], ids=["index", "builder"])
def test_an_index_closes_its_file(tmp_path, make):
    build_index(tmp_path, BILM)
    opened = make(tmp_path)
    assert is_open(tmp_path)
    del opened
    assert not is_open(tmp_path)
    with pytest.raises(KeyError), NeighborIndex.open(tmp_path) as index:
        assert is_open(tmp_path) and index.words["nowhere"]
    assert not is_open(tmp_path)
    index.close()  # again
    with pytest.raises(ValueError, match="cannot be read: .*closed"):  # which is no damage
        index.query(np.ones(16))
    build_index(tmp_path, BILM)  # nor is it locked


def _texts(n, **fields):
    """Documents `0` to `n - 1` of a sentence each."""
    one = [make_document(str(i), [[*sentence, "target"]]) for i, sentence in enumerate(make_sentences(n, 3))]
    return [
        replace(document, fields={key: value(i) for key, value in fields.items()}) for i, document in enumerate(one)
    ]


def _add(path, documents, *fields, **choices):
    builder = open_builder(path, BILM, fields=fields, **choices)
    builder.add(documents)
    builder.finish()
    builder.store.close()
    return builder


@pytest.mark.issue(40)
@pytest.mark.parametrize("exact_tokens", [10**6, pytest.param(100, marks=needs_faiss)])
def test_fields_of_documents_are_stored_and_restrict_a_search(tmp_path, exact_tokens):
    documents = _texts(30, year=lambda i: 1840 + i % 3, text=lambda i: "left out")
    _add(tmp_path / "index", documents, "year", exact_tokens=exact_tokens)
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


@pytest.mark.issue(40)
def test_values_of_fields_are_texts_numbers_or_an_error(tmp_path):
    values = {1848: 1848, " Brontë ": "Brontë", True: "true", "a\ud800": "a\ufffd", None: None, 10**30: None}
    _add(tmp_path / "values", _texts(len(values), x=lambda i: list(values)[i]), "x")
    with NeighborIndex.open(tmp_path / "values") as index:
        assert index.values_of(index.uses("target")[0], "x") == list(values.values())
    with pytest.raises(ValueError, match="The field 'x' of '0' is .* should be a text or a number"):
        _add(tmp_path / "other", _texts(2, x=lambda i: ["a"]), "x")


@pytest.mark.issue(40)
def test_fields_change_without_new_vectors(tmp_path):
    _add(tmp_path, _texts(9))
    before = describe_index(tmp_path)
    for year, n_updated in ((lambda i: 1840 + i, 9), (lambda i: None if i == 4 else 1840, 8)):
        builder = _add(tmp_path, _texts(9, year=year), "year")
        assert (builder.n_updated, builder.n_read, builder.n_documents) == (n_updated, 0, 9)
    assert builder.n_with["year"] == 8
    with NeighborIndex.open(tmp_path) as index:
        assert index.store.read_values("year") == [1840]
    assert _add(tmp_path, _texts(9)).n_updated == 0  # no field is named: those of the index stay
    assert describe_index(tmp_path) == before
