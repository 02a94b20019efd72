"""`elmo embed`: every input, every output, and mistakes."""

import gzip
import io
import os

import numpy as np
import pytest
import spacy
import srsly
from cli.calls import call, refused, told
from spacy.tokens import Doc, DocBin

from spacy_elmo import register_extensions
from spacy_elmo.inference import products
from spacy_elmo.weights import load_bilm

LINES = ["the cat sat on the mat .", "", "a dog   sat"]
TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.fixture
def text_path(tmp_path):
    (tmp_path / "in.txt").write_text(TEXT, encoding="utf8")
    return tmp_path / "in.txt"


def _read(path):
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays}


def _layers(bilm):
    return load_bilm(bilm).embed([line.split() for line in LINES])


def _pooled(bilm):
    """Maxima by text, shape (L+1, D): zeros for the second, which has no words."""
    return [rows.max(axis=1) if rows.shape[1] else np.zeros((3, 16), dtype="float32") for rows in _layers(bilm)]


@pytest.mark.issue(37)
def test_pooled_vectors_of_texts_are_written_to_arrays_and_docs(bilm_path, text_path, tmp_path):
    """Every kind of pooling is in tests/export/test_embedder.py."""
    options = ("--pool", "max", "--store", "both")
    call("embed", bilm_path, text_path, tmp_path / "out.npz", *options)
    arrays, wanted = _read(tmp_path / "out.npz"), _pooled(bilm_path)
    assert arrays["lengths"].tolist() == [7, 0, 3] and arrays["mixed"].shape == (3, 16)
    np.testing.assert_allclose(arrays["layers"], np.stack(wanted, axis=1), atol=1e-6)
    words = '{"words": [" ", "the", "cat", ""]}\n{"words": ["the", "cat"]}\n'  # those that are not read do not count
    (tmp_path / "in.jsonl").write_text(words, encoding="utf8")
    call("embed", bilm_path, tmp_path / "in.jsonl", tmp_path / "words.npz", "--pool", "max")
    np.testing.assert_allclose(*_read(tmp_path / "words.npz")["mixed"], atol=1e-6)
    nlp = spacy.blank("xx")
    docs = [Doc(nlp.vocab, words=line.split()) for line in LINES]
    docs[0].user_data["source"] = "mine"
    DocBin(store_user_data=True, docs=docs).to_disk(tmp_path / "in.spacy")
    for output, file in (("out.spacy", "out.spacy"), ("folder", "folder/part-00000-00000.spacy")):
        docbin = ("--dtype", "float16", "--to", "docbin")
        call("embed", bilm_path, tmp_path / "in.spacy", tmp_path / output, *options, *docbin)
        pooled = list(DocBin().from_disk(tmp_path / file).get_docs(nlp.vocab))
        assert set(pooled[0].user_data) == {"elmo_pooled", "elmo_pooled_layers", "source"}
        for doc, layers in zip(pooled, wanted, strict=True):
            assert doc.user_data["elmo_pooled_layers"].dtype == np.float16
            np.testing.assert_allclose(doc.user_data["elmo_pooled_layers"], layers, atol=2e-3)
            assert doc.user_data["elmo_pooled"].shape == (16,)


def test_arrays_have_the_rows_of_all_texts_and_are_replaced_by_force_only(bilm_path, text_path, tmp_path):
    result = call("embed", bilm_path, text_path, tmp_path / "out.npz", "--store", "both")
    assert result.stdout == "" and "Saved the vectors of 10 tokens in 3 texts" in " ".join(result.stderr.split())
    arrays = _read(tmp_path / "out.npz")
    assert arrays["lengths"].tolist() == [7, 0, 3]
    assert arrays["layers"].shape == (3, 10, 16) and arrays["mixed"].shape == (10, 16)
    np.testing.assert_allclose(arrays["layers"], np.concatenate(_layers(bilm_path), axis=1), atol=1e-6)
    np.testing.assert_allclose(arrays["mixed"], arrays["layers"].mean(axis=0), atol=1e-6)
    assert arrays["tokens"].tolist() == TEXT.split()
    assert arrays["ids"].tolist() == [f"{text_path}:{number}" for number in (1, 2, 3)]
    piped = _read(io.BytesIO(call("embed", bilm_path, "-", "-", input=TEXT).stdout_bytes))
    np.testing.assert_allclose(piped["mixed"], arrays["mixed"], atol=1e-6)
    assert piped["ids"].tolist() == [f"stdin:{number}" for number in (1, 2, 3)]  # as in an index
    (tmp_path / "out.npz").write_text("mine", encoding="utf8")
    assert "--force" in refused("embed", bilm_path, text_path, tmp_path / "out.npz")
    assert (tmp_path / "out.npz").read_text(encoding="utf8") == "mine"
    call("embed", bilm_path, text_path, tmp_path / "out.npz", "--force")
    os.mkfifo(tmp_path / "pipe.npz")
    assert "not a regular file" in refused("embed", bilm_path, text_path, tmp_path / "pipe.npz", "--force")


@pytest.mark.issue(59)
@pytest.mark.parametrize("name", ["OUT.NPZ", "Out.Hdf5", "OUT.SPACY", "OUT.PARQUET"])
def test_suffixes_of_outputs_may_be_in_capitals(bilm_path, text_path, tmp_path, name):
    if name.endswith("PARQUET"):
        pytest.importorskip("pyarrow", reason="needs pyarrow")
    for written in (name, name.lower()):
        call("embed", bilm_path, text_path, tmp_path / "sub" / written)
    n_bytes = {path.stat().st_size for path in (tmp_path / "sub").iterdir()}
    assert len(n_bytes) == 1


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_precision_is_that_of_the_bilm(bilm_path, text_path, tmp_path, precision):
    if not products.is_supported_on_cpu(precision):
        pytest.skip(f"torch without {precision} products")
    call("embed", bilm_path, text_path, tmp_path / "out.npz", "--precision", precision)
    words = [line.split() for line in LINES]
    exact, wanted = (
        np.concatenate(load_bilm(bilm_path, precision=name).embed(words, layers="mean"))
        for name in ("float32", precision)
    )
    np.testing.assert_allclose(_read(tmp_path / "out.npz")["mixed"], wanted, atol=1e-6)
    assert np.abs(exact - wanted).max() > 1e-4


def test_words_that_are_not_read_have_rows_and_nothing_has_none(bilm_path, tmp_path):
    lines = ['{"words": ["", "cat", "\\ud800"]}', "", '{"text": "cat \\ud800 \\ud83d\\ude00"}']
    (tmp_path / "in.jsonl").write_text("\n".join(lines), encoding="utf8")
    assert "2 unpaired surrogates" in told("embed", bilm_path, tmp_path / "in.jsonl", tmp_path / "out.npz")
    arrays = _read(tmp_path / "out.npz")
    assert arrays["lengths"].tolist() == [3, 0, 3]
    expected = load_bilm(bilm_path).embed([["cat", "\ufffd"], ["cat", "\ufffd", "\U0001f600"]])
    rows = np.concatenate([layers.mean(axis=0) for layers in expected])
    np.testing.assert_allclose(arrays["mixed"], np.concatenate([np.zeros((1, 16)), rows]), atol=1e-6)
    (tmp_path / "in.txt").write_bytes(b"")
    for dtype, options in (("float32", ()), ("float16", ("--pool", "mean"))):
        settings = ("--store", "both", "--dtype", dtype, "--force", *options)
        call("embed", bilm_path, tmp_path / "in.txt", tmp_path / "out.npz", *settings)
        arrays = _read(tmp_path / "out.npz")
        assert arrays["mixed"].dtype == arrays["layers"].dtype == dtype and ("tokens" in arrays) == (not options)
        shapes = {name: arrays[name].shape for name in ("lengths", "ids", "mixed", "layers")}
        assert shapes == {"lengths": (0,), "ids": (0,), "mixed": (0, 16), "layers": (3, 0, 16)}


def test_every_format_gives_the_same_vectors(bilm_path, text_path, tmp_path):
    nlp, output = spacy.blank("en"), tmp_path / "out.npz"
    srsly.write_jsonl(tmp_path / "texts.jsonl", [{"text": line} for line in LINES])
    srsly.write_jsonl(tmp_path / "words.jsonl", [{"words": [t.text for t in nlp(line)]} for line in LINES])
    DocBin(docs=[nlp(line) for line in LINES]).to_disk(tmp_path / "docs.spacy")
    (tmp_path / "zipped.txt.gz").write_bytes(gzip.compress(text_path.read_bytes()))
    results = []
    for name in ("in.txt", "texts.jsonl", "words.jsonl", "docs.spacy", "zipped.txt.gz"):
        call("embed", bilm_path, tmp_path / name, output, "--lang", "en", "--batch-size", 2, "--force")
        results.append(_read(output))
    for result in results:
        assert result["lengths"].tolist() == results[0]["lengths"].tolist()
        np.testing.assert_allclose(result["mixed"], results[0]["mixed"], atol=1e-6)
    register_extensions()
    docbin = ("--to", "docbin", "--dtype", "float16", "--lang", "en", "--docs-per-file", 2)
    for name, n_files in (("out.spacy", 1), ("parts", 2)):
        call("embed", bilm_path, text_path, tmp_path / name, *docbin)
        paths = sorted((tmp_path / name).glob("part-*.spacy")) if n_files > 1 else [tmp_path / name]
        docs = [doc for path in paths for doc in DocBin().from_disk(path).get_docs(nlp.vocab)]
        assert len(paths) == n_files and [doc.text.strip() for doc in docs] == LINES
        assert docs[0]._.elmo.shape == (7, 16) and docs[0]._.elmo.dtype == "float16"


@pytest.mark.issue(15)
def test_tokens_are_separated_by_white_space_and_raw_text_is_noticed(bilm_path, tmp_path):
    (tmp_path / "in.txt").write_text('The cat sat on "the mat".\n', encoding="utf8")
    arguments = ("embed", bilm_path, tmp_path / "in.txt", tmp_path / "out.npz", "--force")
    for options, n_tokens in (([], 6), (["--lang", "en"], 9)):
        assert ("WL103" in told(*arguments, *options)) == (n_tokens == 6)
        assert _read(tmp_path / "out.npz")["lengths"].tolist() == [n_tokens]
