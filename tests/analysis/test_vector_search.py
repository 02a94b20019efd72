"""Approximate search: its recall, its file, without Faiss."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from typer.testing import CliRunner

from spacy_elmo.analysis import index_build, vector_search
from spacy_elmo.analysis.neighbors import NeighborIndex, check_recall
from spacy_elmo.analysis.vector_search import repair_search
from spacy_elmo.cli._app import app

from .indexes import BILM, build_index, make_sentences, needs_faiss, open_builder


@pytest.fixture(scope="module")
def approximate(tmp_path_factory):
    pytest.importorskip("faiss")
    path = tmp_path_factory.mktemp("approximate") / "index"
    build_index(path, BILM, {"a": make_sentences(150, 1), "b": make_sentences(150, 2)}, exact_tokens=100)
    with NeighborIndex.open(path) as index:
        yield index


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


def test_without_faiss(approximate, tmp_path, monkeypatch):
    monkeypatch.setattr(vector_search, "has_faiss", False)
    with pytest.raises(ValueError, match="tokens needs Faiss"):
        NeighborIndex.open(approximate.path)
    monkeypatch.setattr(index_build, "has_faiss", False)
    build_index(tmp_path / "small", BILM)
    with pytest.raises(ValueError, match="tokens needs Faiss"):
        build_index(tmp_path / "large", BILM, exact_tokens=100)


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
