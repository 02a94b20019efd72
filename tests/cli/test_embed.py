"""`elmo embed`: every input, every output, and mistakes."""

import gzip
import io
import json
import os

import h5py
import numpy as np
import pytest
import spacy
import srsly
from cli.calls import call, refused, told
from spacy.tokens import Doc, DocBin

from spacy_elmo import register_extensions, util
from spacy_elmo.inference import products
from spacy_elmo.weights import load_bilm

LINES = ["the cat sat on the mat .", "", "a dog   sat"]
TEXT = "".join(f"{line}\n" for line in LINES)
POOLS = {
    "mean": lambda rows: rows.mean(axis=-2),
    "first": lambda rows: rows[..., 0, :],
    "last": lambda rows: rows[..., -1, :],
    "max": lambda rows: rows.max(axis=-2),
}


@pytest.fixture
def text_path(tmp_path):
    (tmp_path / "in.txt").write_text(TEXT, encoding="utf8")
    return tmp_path / "in.txt"


def _read(path):
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays}


def _lengths(bilm, source, *options, **settings):
    """Tokens of each text, as `embed` reads them."""
    output = bilm.parent / "lengths.npz"
    call("embed", bilm, source, output, "--force", *options, **settings)
    return list(_read(output)["lengths"])


def _layers(bilm):
    return load_bilm(bilm).embed([line.split() for line in LINES])


def _pooled(bilm, pool):
    """By text, shape (L+1, D): zeros for the second, which has no words."""
    return [POOLS[pool](rows) if rows.shape[1] else np.zeros((3, 16), dtype="float32") for rows in _layers(bilm)]


def test_arrays_have_the_rows_of_all_texts(bilm_path, text_path, tmp_path):
    result = call("embed", bilm_path, text_path, tmp_path / "out.npz", "--store", "both")
    assert result.stdout == "" and "Saved the vectors of 10 tokens in 3 texts" in " ".join(result.stderr.split())
    arrays = _read(tmp_path / "out.npz")
    assert arrays["lengths"].tolist() == [7, 0, 3]
    assert arrays["layers"].shape == (3, 10, 16) and arrays["mixed"].shape == (10, 16)
    np.testing.assert_allclose(arrays["layers"], np.concatenate(_layers(bilm_path), axis=1), atol=1e-6)
    np.testing.assert_allclose(arrays["mixed"], arrays["layers"].mean(axis=0), atol=1e-6)
    assert arrays["tokens"].tolist() == TEXT.split()
    assert arrays["ids"].tolist() == [f"{text_path}:{number}" for number in (1, 2, 3)]
    piped = call("embed", bilm_path, "-", "-", input=TEXT)
    np.testing.assert_allclose(_read(io.BytesIO(piped.stdout_bytes))["mixed"], arrays["mixed"], atol=1e-6)


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_precision_is_that_of_the_bilm(bilm_path, text_path, tmp_path, precision):
    if not products.works(precision):
        pytest.skip(f"torch without {precision} products")
    call("embed", bilm_path, text_path, tmp_path / "out.npz", "--precision", precision)
    words = [line.split() for line in LINES]
    exact, wanted = (
        np.concatenate(load_bilm(bilm_path, precision=name).embed(words, layers="mean"))
        for name in ("float32", precision)
    )
    np.testing.assert_allclose(_read(tmp_path / "out.npz")["mixed"], wanted, atol=1e-6)
    assert np.abs(exact - wanted).max() > 1e-4


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


@pytest.mark.issue(37)
@pytest.mark.parametrize(
    "content, wanted",
    [
        (b"", []),
        (b"\xef\xbb\xbfthe cat\n", [2]),
        (b"the cat\r\rsat on the mat\r.", [2, 0, 4, 1]),
        (b"the cat\r\n\r\nsat on the mat\r\n.", [2, 0, 4, 1]),
    ],
    ids=["empty", "byte order mark", "Mac", "Windows"],
)
@pytest.mark.parametrize("is_piped", [False, True])
def test_text_of_every_system_is_read(content, wanted, is_piped, bilm_path, tmp_path):
    (tmp_path / "in.txt").write_bytes(content)
    assert _lengths(bilm_path, "-" if is_piped else tmp_path / "in.txt", input=content) == wanted


@pytest.mark.issue(37)
@pytest.mark.parametrize("name, format", [("in.json", "auto"), ("in.jsonl", "auto"), ("-", "jsonl")])
def test_elements_of_an_array_are_read(name, format, bilm_path, tmp_path):
    content = json.dumps([{"text": "the cat"}, {"words": ["sat", "", "mat"]}, {"text": "a \ud800"}], indent=2)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_text(content, encoding="utf8")
    place = name if name == "-" else tmp_path / "in" / name
    assert _lengths(bilm_path, place, "--input-format", format, input=content) == [2, 3, 2]


def test_empty_words_and_lone_surrogates_have_rows(bilm_path, tmp_path):
    lines = ['{"words": ["", "cat", "\\ud800"]}', "", '{"text": "cat \\ud800 \\ud83d\\ude00"}']
    (tmp_path / "in.jsonl").write_text("\n".join(lines), encoding="utf8")
    assert "2 unpaired surrogates" in told("embed", bilm_path, tmp_path / "in.jsonl", tmp_path / "out.npz")
    arrays = _read(tmp_path / "out.npz")
    assert arrays["lengths"].tolist() == [3, 0, 3]
    expected = load_bilm(bilm_path).embed([["cat", "\ufffd"], ["cat", "\ufffd", "\U0001f600"]])
    rows = np.concatenate([layers.mean(axis=0) for layers in expected])
    np.testing.assert_allclose(arrays["mixed"], np.concatenate([np.zeros((1, 16)), rows]), atol=1e-6)


@pytest.mark.issue(15)
def test_tokens_are_separated_by_white_space_and_raw_text_is_noticed(bilm_path, tmp_path):
    (tmp_path / "in.txt").write_text('The cat sat on "the mat".\n', encoding="utf8")
    arguments = ("embed", bilm_path, tmp_path / "in.txt", tmp_path / "out.npz", "--force")
    for options, n_tokens in (([], 6), (["--lang", "en"], 9)):
        assert ("WL103" in told(*arguments, *options)) == (n_tokens == 6)
        assert _read(tmp_path / "out.npz")["lengths"].tolist() == [n_tokens]


@pytest.mark.parametrize("name, n_files", [("out.spacy", 1), ("parts", 2)])
def test_docs_have_vectors(bilm_path, text_path, tmp_path, name, n_files):
    options = ("--docs-per-file", 2, "--to", "docbin", "--dtype", "float16", "--lang", "en")
    call("embed", bilm_path, text_path, tmp_path / name, *options)
    register_extensions()
    paths = sorted((tmp_path / name).glob("part-*.spacy")) if n_files > 1 else [tmp_path / name]
    assert len(paths) == n_files
    vocab = spacy.blank("en").vocab
    docs = [doc for path in paths for doc in DocBin().from_disk(path).get_docs(vocab)]
    assert [doc.text.strip() for doc in docs] == LINES
    assert docs[0]._.elmo.shape == (7, 16) and docs[0]._.elmo.dtype == "float16"


@pytest.mark.parametrize("dtype, options", [("float32", ()), ("float16", ("--pool", "mean"))])
def test_arrays_of_nothing_have_no_rows(options, dtype, bilm_path, tmp_path):
    (tmp_path / "in.txt").write_bytes(b"")
    call("embed", bilm_path, tmp_path / "in.txt", tmp_path / "out.npz", "--store", "both", "--dtype", dtype, *options)
    arrays = _read(tmp_path / "out.npz")
    assert arrays["lengths"].shape == (0,) and arrays["mixed"].dtype == arrays["layers"].dtype == dtype
    assert arrays["ids"].shape == (0,) and ("tokens" in arrays) == (not options)
    assert arrays["mixed"].shape == (0, 16) and arrays["layers"].shape == (3, 0, 16)


@pytest.mark.parametrize(
    "name, content, options, message",
    [
        ("in.jsonl", b"{", [], "is not valid JSON"),
        ("in.jsonl", b'{"words": "the cat"}', [], "should be a JSON object"),
        ("in.spacy", b"nothing", [], "cannot be read as a DocBin"),
        ("latin.txt", "cafe\ncaf\xe9".encode("latin1"), [], "latin.txt:2 is not valid UTF-8"),
        ("cut.txt.gz", gzip.compress(b"the cat sat\n" * 99)[:-9], [], "EL108"),
        ("plain.txt.gz", b"the cat sat", [], "EL108"),
        ("in.txt", b"a", ["--lang", "zz"], "no tokenizer for the language 'zz'"),
        ("in.txt", b"a", ["--precision", "float16"], "Choose 'float32'"),
        ("in.txt", b"a", ["--gpu-id", 99], "There is no GPU number 99"),
        ("in.csv", b"a", ["IN FOLDER"], "There are no texts"),
        ("in.txt", b"a", ["TO out.txt"], "should end in .npz"),
    ],
)
def test_mistakes_leave_nothing_behind(name, content, options, message, bilm_path, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(content)
    source, output = tmp_path / "in" / name, tmp_path / "out.npz"
    if options == ["IN FOLDER"]:
        source, options = source.parent, []
    elif options == ["TO out.txt"]:
        output, options = tmp_path / "out.txt", []
    shown = call("embed", bilm_path, source, output, *options, code=1).stderr
    assert message in " ".join(shown.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bilm", "in"]


def test_outputs_are_replaced_by_force_only(bilm_path, text_path, tmp_path):
    output = tmp_path / "out.npz"
    output.write_text("mine", encoding="utf8")
    assert "--force" in refused("embed", bilm_path, text_path, output)
    assert output.read_text(encoding="utf8") == "mine"
    call("embed", bilm_path, text_path, output, "--force")
    os.mkfifo(tmp_path / "pipe.npz")
    assert "not a regular file" in refused("embed", bilm_path, text_path, tmp_path / "pipe.npz", "--force")


@pytest.mark.issue(37)
@pytest.mark.parametrize("pool", POOLS)
def test_vectors_of_a_text_are_pooled(pool, bilm_path, text_path, tmp_path):
    call("embed", bilm_path, text_path, tmp_path / "out.npz", "--pool", pool, "--store", "both")
    arrays, wanted = _read(tmp_path / "out.npz"), _pooled(bilm_path, pool)
    assert arrays["lengths"].tolist() == [7, 0, 3] and arrays["layers"].shape == (3, 3, 16)
    np.testing.assert_allclose(arrays["layers"], np.stack(wanted, axis=1), atol=1e-6)
    mixed = [POOLS[pool](rows.mean(axis=0)) if rows.shape[1] else np.zeros(16) for rows in _layers(bilm_path)]
    np.testing.assert_allclose(arrays["mixed"], np.stack(mixed), atol=1e-6)
    words = '{"words": [" ", "the", "cat", ""]}\n{"words": ["the", "cat"]}\n'  # those that are not read do not count
    (tmp_path / "in.jsonl").write_text(words, encoding="utf8")
    call("embed", bilm_path, tmp_path / "in.jsonl", tmp_path / "words.npz", "--pool", pool)
    np.testing.assert_allclose(*_read(tmp_path / "words.npz")["mixed"], atol=1e-6)


@pytest.mark.issue(37)
@pytest.mark.parametrize("store, select", [("layers", slice(None)), ("top", -1), ("mixed", None)])
def test_pooled_vectors_are_written_to_hdf5(store, select, bilm_path, text_path, tmp_path):
    call("embed", bilm_path, text_path, tmp_path / "out.h5", "--pool", "mean", "--store", store)
    with h5py.File(tmp_path / "out.h5", "r") as file:
        assert len(file) == 4
        for number, wanted in enumerate(_pooled(bilm_path, "mean")):
            wanted = wanted.mean(axis=0) if select is None else wanted[select]
            np.testing.assert_allclose(file[str(number)][()], wanted, atol=1e-6)


@pytest.mark.issue(37)
@pytest.mark.parametrize("output", ["out.spacy", "folder"])
@pytest.mark.parametrize("store, names", [("mixed", [""]), ("layers", ["_layers"]), ("both", ["", "_layers"])])
def test_pooled_vectors_are_written_to_docs(output, store, names, bilm_path, tmp_path):
    nlp = spacy.blank("xx")
    docs = [Doc(nlp.vocab, words=line.split()) for line in LINES]
    docs[0].user_data["source"] = "mine"
    DocBin(store_user_data=True, docs=docs).to_disk(tmp_path / "in.spacy")
    options = ("--pool", "max", "--store", store, "--dtype", "float16", "--to", "docbin")
    call("embed", bilm_path, tmp_path / "in.spacy", tmp_path / output, *options)
    file = tmp_path / output if output.endswith(".spacy") else tmp_path / output / "part-00000-00000.spacy"
    found = list(DocBin().from_disk(file).get_docs(nlp.vocab))
    for i, (doc, layers) in enumerate(zip(found, _pooled(bilm_path, "max"))):
        assert set(doc.user_data) == {f"elmo_pooled{name}" for name in names} | ({"source"} if i == 0 else set())
        if "_layers" in names:
            assert doc.user_data["elmo_pooled_layers"].dtype == np.float16
            np.testing.assert_allclose(doc.user_data["elmo_pooled_layers"], layers, atol=2e-3)
        if "" in names:
            assert doc.user_data["elmo_pooled"].shape == (16,)


@pytest.mark.issue(39)
@pytest.mark.parametrize("output, remedy", [("out", "--to docbin"), ("out.parquet", "pip install pyarrow")])
def test_parquet_without_pyarrow_names_the_output_and_the_way(
    output, remedy, bilm_path, text_path, tmp_path, monkeypatch
):
    monkeypatch.setattr(util, "has_pyarrow", False)
    shown = refused("embed", bilm_path, text_path, tmp_path / output)
    assert f"{output}' is Parquet" in shown and remedy in shown
    assert not (tmp_path / output).exists()
