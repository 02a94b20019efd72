"""Documents of an index: added, continued, changed, deleted, replaced; their fields."""

import pytest

from spacy_elmo.analysis import token_store
from spacy_elmo.analysis.index_build import (
    replace_index,
    start_replacement,
)
from spacy_elmo.analysis.neighbors import NeighborIndex, check_recall
from spacy_elmo.analysis.token_store import STORE_FILE

from .indexes import (
    BILM,
    add_documents,
    build_index,
    describe_index,
    make_document,
    make_sentences,
    make_texts,
    needs_faiss,
    open_builder,
)


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


def test_values_of_fields_are_texts_numbers_or_an_error(tmp_path):
    values = {1848: 1848, " Brontë ": "Brontë", True: "true", "a\ud800": "a\ufffd", None: None, 10**30: None}
    add_documents(tmp_path / "values", make_texts(len(values), x=lambda i: list(values)[i]), "x")
    with NeighborIndex.open(tmp_path / "values") as index:
        assert index.values_of(index.uses("target")[0], "x") == list(values.values())
    with pytest.raises(ValueError, match="The field 'x' of '0' is .* should be a text or a number"):
        add_documents(tmp_path / "other", make_texts(2, x=lambda i: ["a"]), "x")


def test_fields_change_without_new_vectors(tmp_path):
    add_documents(tmp_path, make_texts(9))
    before = describe_index(tmp_path)
    for year, n_updated in ((lambda i: 1840 + i, 9), (lambda i: None if i == 4 else 1840, 8)):
        builder = add_documents(tmp_path, make_texts(9, year=year), "year")
        assert (builder.n_updated, builder.n_read, builder.n_documents) == (n_updated, 0, 9)
    assert builder.n_with["year"] == 8
    with NeighborIndex.open(tmp_path) as index:
        assert index.store.read_values("year") == [1840]
    assert add_documents(tmp_path, make_texts(9)).n_updated == 0  # no field is named: those of the index stay
    assert describe_index(tmp_path) == before
