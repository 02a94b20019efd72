import gzip
import io
import json
import lzma
import os
from pathlib import Path
from typing import Any, List

import h5py
import numpy as np
import pytest
import spacy
import srsly
from spacy.tokens import Doc, DocBin
from typer.testing import CliRunner

from spacy_elmo import register_extensions
from spacy_elmo.cli._app import app
from spacy_elmo.export.vectors import Cutter
from spacy_elmo.inference import onednn
from spacy_elmo.weights import load_bilm

LINES = ["the cat sat on the mat .", "", "a dog   sat"]


def _embed(*arguments: Any, **settings: Any) -> Any:
    result = CliRunner().invoke(app, ["embed", *map(str, arguments)], **settings)
    assert result.exit_code == 0, result.output
    return result


def _read(path: Path) -> Any:
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays}


@pytest.fixture
def text_path(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf8")
    return path


def test_embed_writes_rows_of_all_texts(bilm_path: Path, text_path: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    result = CliRunner().invoke(app, ["embed", str(bilm_path), str(text_path), str(output), "--store", "both"])
    assert result.exit_code == 0, result.output
    arrays = _read(output)
    assert arrays["lengths"].tolist() == [7, 0, 3]
    assert arrays["layers"].shape == (3, 10, 16) and arrays["mixed"].shape == (10, 16)
    expected = load_bilm(bilm_path).embed([line.split() for line in LINES])
    np.testing.assert_allclose(arrays["layers"], np.concatenate(expected, axis=1), atol=1e-6)
    np.testing.assert_allclose(arrays["mixed"], arrays["layers"].mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_embed_computes_in_fewer_bits(bilm_path: Path, text_path: Path, tmp_path: Path, precision: str) -> None:
    if not onednn.works(precision):
        pytest.skip(f"torch without {precision} products")
    output = tmp_path / "out.npz"
    arguments = ["embed", str(bilm_path), str(text_path), str(output), "--precision", precision]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    bilm = load_bilm(bilm_path, precision=precision)
    expected = np.concatenate(bilm.embed([line.split() for line in LINES], layers="mean"))
    np.testing.assert_allclose(_read(output)["mixed"], expected, atol=1e-6)
    exact = np.concatenate(load_bilm(bilm_path).embed([line.split() for line in LINES], layers="mean"))
    assert np.abs(exact - expected).max() > 1e-4


def test_embed_tells_what_to_choose_for_a_precision_that_is_not_there(bilm_path: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\n", encoding="utf8")
    arguments = ["embed", str(bilm_path), str(tmp_path / "in.txt"), str(tmp_path / "out.npz"), "-p", "float16"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1 and not (tmp_path / "out.npz").exists()
    assert "float16" in result.stderr and "Choose 'float32'" in " ".join(result.stderr.split())


def test_embed_reads_the_same_from_every_format(bilm_path: Path, text_path: Path, tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    srsly.write_jsonl(tmp_path / "texts.jsonl", [{"text": line} for line in LINES])
    srsly.write_jsonl(tmp_path / "words.jsonl", [{"words": [t.text for t in nlp(line)]} for line in LINES])
    DocBin(docs=[nlp(line) for line in LINES]).to_disk(tmp_path / "docs.spacy")
    (tmp_path / "zipped.txt.gz").write_bytes(gzip.compress(text_path.read_bytes()))
    results = []
    for name in ("in.txt", "texts.jsonl", "words.jsonl", "docs.spacy", "zipped.txt.gz"):
        _embed(bilm_path, tmp_path / name, tmp_path / "out.npz", "--lang", "en", "--batch-size", 2, "--force")
        results.append(_read(tmp_path / "out.npz"))
    for result in results:
        assert result["lengths"].tolist() == results[0]["lengths"].tolist()
        np.testing.assert_allclose(result["mixed"], results[0]["mixed"], atol=1e-6)


def test_texts_are_computed_together_up_to_a_number_of_tokens() -> None:
    words = [["a"] * n for n in (9_000, 7_000, 1, 20_000, 3)]
    assert [[len(item) for item in batch] for batch in Cutter(9).cut(words)] == [[9_000, 7_000], [1], [20_000], [3]]
    assert [len(batch) for batch in Cutter(1_024).cut([["a"]] * 2_500)] == [1_024, 1_024, 452]
    assert list(Cutter(9).cut([])) == []


@pytest.mark.parametrize("n_characters", [1, 5])
def test_how_many_characters_a_token_has_is_learnt(n_characters: int) -> None:
    """A text in Chinese may have a token for each."""
    cutter, sizes = Cutter(1_024), []
    for batch in cutter.cut(["x" * 4_000] * 30):
        sizes.append(len(batch))
        cutter.learn(batch, 4_000 * len(batch) // n_characters)
    assert sizes == {1: [4] * 7 + [2], 5: [4, 16, 10]}[n_characters]  # the fifth was met before
    cutter.learn([["words"]], 1)
    cutter.learn([""], 0)
    assert len(next(cutter.cut(["x" * 4_000] * 30))) == 4 * n_characters


@pytest.mark.parametrize("name, files", [("out.spacy", 1), ("parts", 2)])
def test_embed_writes_docs_with_vectors(
    bilm_path: Path, text_path: Path, tmp_path: Path, name: str, files: int
) -> None:
    arguments = ["embed", str(bilm_path), str(text_path), str(tmp_path / name), "--docs-per-file", "2", "-d", "float16"]
    result = CliRunner().invoke(app, [*arguments, "--lang", "en"])
    assert result.exit_code == 0, result.output
    register_extensions()
    paths = sorted((tmp_path / name).iterdir()) if files > 1 else [tmp_path / name]
    assert len(paths) == files
    vocab = spacy.blank("en").vocab
    docs: List[Any] = [doc for path in paths for doc in DocBin().from_disk(path).get_docs(vocab)]
    assert [doc.text.strip() for doc in docs] == LINES
    assert docs[0]._.elmo.shape == (7, 16) and docs[0]._.elmo.dtype == "float16"


def test_embed_reads_stdin_and_writes_stdout(bilm_path: Path) -> None:
    result = CliRunner().invoke(app, ["embed", str(bilm_path), "-", "-"], input="the cat\n")
    assert result.exit_code == 0, result.output
    with np.load(io.BytesIO(result.stdout_bytes)) as arrays:
        assert arrays["mixed"].shape == (2, 16)


@pytest.mark.parametrize("is_piped", [False, True])
def test_embed_passes_over_a_byte_order_mark(bilm_path: Path, tmp_path: Path, is_piped: bool) -> None:
    text, output = tmp_path / "in.txt", tmp_path / "out.npz"
    text.write_bytes(b"\xef\xbb\xbfthe cat\n")
    place, piped = ("-", text.read_bytes()) if is_piped else (str(text), None)
    result = CliRunner().invoke(app, ["embed", str(bilm_path), place, str(output)], input=piped)
    assert result.exit_code == 0, result.output
    expected = load_bilm(bilm_path).embed([["the", "cat"]])[0].mean(axis=0)
    np.testing.assert_allclose(_read(output)["mixed"], expected, atol=1e-6)


def test_embed_reads_of_a_folder_what_vocab_reads(bilm_path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    (folder / ".hidden").mkdir(parents=True)
    contents = {"a.txt": b"a\n", "b.txt.xz": lzma.compress(b"b b\n"), "c.gz": gzip.compress(b"c c c\n")}
    others = {"d.csv": b"d\n", "e.TXT": b"e\n", ".hidden/f.txt": b"f\n"}
    for name, content in {**contents, **others}.items():
        (folder / name).write_bytes(content)
    arguments = ["embed", str(bilm_path), str(folder), str(tmp_path / "out.npz")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert _read(tmp_path / "out.npz")["lengths"].tolist() == [1, 2, 3]
    told = " ".join(result.stderr.split())
    assert "not read" in told and "d.csv, e.TXT" in told and "hidden" not in told
    arguments[2] = str(folder / "*.TXT")
    assert CliRunner().invoke(app, [*arguments, "--force"]).exit_code == 0
    assert _read(tmp_path / "out.npz")["lengths"].tolist() == [1]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_embed_of_nothing_gives_arrays_without_rows(bilm_path: Path, tmp_path: Path, dtype: str) -> None:
    (tmp_path / "in.txt").write_text("", encoding="utf8")
    result = _embed(bilm_path, tmp_path / "in.txt", tmp_path / "out.npz", "--store", "both", "--dtype", dtype)
    assert "0 tokens in 0 texts" in result.stderr
    arrays = _read(tmp_path / "out.npz")
    assert arrays["lengths"].shape == (0,) and arrays["mixed"].dtype == arrays["layers"].dtype == dtype
    assert arrays["mixed"].shape == (0, 16) and arrays["layers"].shape == (3, 0, 16)


def test_embed_takes_empty_words_and_lone_surrogates(bilm_path: Path, tmp_path: Path) -> None:
    lines = ['{"words": ["", "cat", "\\ud800"]}', "", '{"text": "cat \\ud800 \\ud83d\\ude00"}']
    (tmp_path / "in.jsonl").write_text("\n".join(lines), encoding="utf8")
    result = CliRunner().invoke(app, ["embed", str(bilm_path), str(tmp_path / "in.jsonl"), str(tmp_path / "out.npz")])
    assert result.exit_code == 0, result.output
    arrays = _read(tmp_path / "out.npz")
    assert arrays["lengths"].tolist() == [3, 0, 3]
    expected = load_bilm(bilm_path).embed([["cat", "\ufffd"], ["cat", "\ufffd", "\U0001f600"]])
    rows = np.concatenate([layers.mean(axis=0) for layers in expected])
    np.testing.assert_allclose(arrays["mixed"], np.concatenate([np.zeros((1, 16)), rows]), atol=1e-6)
    assert "2 unpaired surrogates" in " ".join(result.stderr.split())


def test_embed_takes_texts_of_any_length(bilm_path: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a" + " " * 1_000_000 + "cat", encoding="utf8")
    _embed(bilm_path, tmp_path / "in.txt", tmp_path / "out.npz", "--lang", "en")
    assert _read(tmp_path / "out.npz")["lengths"].tolist() == [3]


def test_embed_does_not_overwrite_without_force(bilm_path: Path, text_path: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    output.write_text("mine", encoding="utf8")
    arguments = ["embed", str(bilm_path), str(text_path), str(output)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1 and "--force" in result.output
    assert output.read_text(encoding="utf8") == "mine"
    assert CliRunner().invoke(app, [*arguments, "--force"]).exit_code == 0


@pytest.mark.parametrize(
    "name, content, complaint",
    [
        ("in.jsonl", "{", "is not valid JSON"),
        ("in.jsonl", '{"words": "the cat"}', "should be a JSON object"),
        ("in.spacy", "nothing", "cannot be read as a DocBin"),
    ],
)
def test_embed_names_the_line_it_cannot_read(
    bilm_path: Path, tmp_path: Path, name: str, content: str, complaint: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf8")
    result = CliRunner().invoke(app, ["embed", str(bilm_path), str(tmp_path / name), str(tmp_path / "out.npz")])
    assert result.exit_code == 1
    assert complaint in result.output.replace("\n", " ")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith((".embed", "out"))] == []


def test_embed_refuses_unknown_suffix_and_empty_folder(bilm_path: Path, text_path: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    runner = CliRunner()
    result = runner.invoke(app, ["embed", str(bilm_path), str(text_path), str(tmp_path / "out.txt")])
    assert result.exit_code == 1 and ".npz" in result.output
    result = runner.invoke(app, ["embed", str(bilm_path), str(tmp_path / "empty"), str(tmp_path / "out.npz")])
    assert result.exit_code == 1 and "There are no texts" in result.output


@pytest.mark.parametrize(
    "name, content, complaint",
    [
        ("latin.txt", "cafe\ncaf\u00e9".encode("latin1"), "is not valid UTF-8"),
        ("cut.txt.gz", gzip.compress(b"the cat sat\n" * 99)[:-9], "EL108"),
        ("plain.txt.gz", b"the cat sat", "EL108"),
    ],
)
def test_embed_names_the_file_it_cannot_decode(
    bilm_path: Path, tmp_path: Path, name: str, content: bytes, complaint: str
) -> None:
    (tmp_path / name).write_bytes(content)
    result = CliRunner().invoke(app, ["embed", str(bilm_path), str(tmp_path / name), str(tmp_path / "out.npz")])
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit)
    told = " ".join(result.stderr.split())
    assert name in told and complaint in told


def test_embed_refuses_a_language_that_is_not_there(bilm_path: Path, text_path: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.npz"
    result = CliRunner().invoke(app, ["embed", str(bilm_path), str(text_path), str(output), "--lang", "zz"])
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit)
    assert "'zz'" in result.stderr and "--lang" in result.stderr.replace("\n", " ")
    assert not output.exists()


def test_embed_never_replaces_what_is_no_file(bilm_path: Path, text_path: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "out.npz"
    os.mkfifo(pipe)
    result = CliRunner().invoke(app, ["embed", str(bilm_path), str(text_path), str(pipe), "--force"])
    assert result.exit_code == 1 and pipe.is_fifo()
    assert "not a regular file" in " ".join(result.stderr.split())


def test_embed_speaks_on_stderr(bilm_path: Path, text_path: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["embed", str(bilm_path), str(text_path), str(tmp_path / "out.npz")])
    assert result.stdout == "" and "Saved" in result.stderr


@pytest.mark.issue(15)
def test_embed_splits_on_white_space_like_other_commands_and_notices_raw_text(bilm_path: Path, tmp_path: Path) -> None:
    text = tmp_path / "in.txt"
    text.write_text('The cat sat on "the mat".\n', encoding="utf8")
    arguments = ["embed", str(bilm_path), str(text), str(tmp_path / "out.npz"), "--force"]
    lengths, told = {}, {}
    for option in ("", "--tokenized", "--lang=en"):
        result = CliRunner().invoke(app, [*arguments, *option.split()])
        assert result.exit_code == 0, result.output
        lengths[option] = _read(tmp_path / "out.npz")["lengths"].tolist()
        told[option] = "WL103" in result.stderr
    assert lengths == {"": [6], "--tokenized": [6], "--lang=en": [9]}
    assert told == {"": True, "--tokenized": True, "--lang=en": False}
    result = CliRunner().invoke(app, [*arguments, "--tokenized", "--lang", "en"])
    assert result.exit_code == 1 and "exclude each other" in result.stderr


@pytest.mark.issue(37)
@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_embed_reads_the_line_ends_of_every_system(end: str, bilm_path: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(end.join(["the cat", "", "sat on the mat", "."]).encode("utf8"))
    result = CliRunner().invoke(app, ["embed", str(bilm_path), str(tmp_path / "in.txt"), str(tmp_path / "out.npz")])
    assert result.exit_code == 0, result.output
    assert _read(tmp_path / "out.npz")["lengths"].tolist() == [2, 0, 4, 1]


@pytest.mark.issue(37)
@pytest.mark.parametrize("name, format", [("in.json", "auto"), ("in.jsonl", "auto"), ("-", "jsonl")])
def test_embed_reads_the_elements_of_an_array(name: str, format: str, bilm_path: Path, tmp_path: Path) -> None:
    content = json.dumps([{"text": "the cat"}, {"words": ["sat", "", "mat"]}, {"text": "a \\ud800"}], indent=2)
    content = content.replace("\\\\ud800", "\\ud800")  # a lone surrogate
    place = name if name == "-" else str(tmp_path / name)
    if name != "-":
        (tmp_path / name).write_text(content, encoding="utf8")
    arguments = ["embed", str(bilm_path), place, str(tmp_path / "out.npz"), "--input-format", format]
    result = CliRunner().invoke(app, arguments, input=content)
    assert result.exit_code == 0, result.output
    assert _read(tmp_path / "out.npz")["lengths"].tolist() == [2, 3, 2] and "1 unpaired surrogates" in result.stderr


POOLS = {
    "mean": lambda rows: rows.mean(axis=-2),
    "first": lambda rows: rows[..., 0, :],
    "last": lambda rows: rows[..., -1, :],
    "max": lambda rows: rows.max(axis=-2),
}


def _pooled(bilm_path: Path, pool: str) -> List[Any]:
    """By text, shape (L+1, D): zeros for the second, which has no words."""
    layers = load_bilm(bilm_path).embed([line.split() for line in LINES])
    return [POOLS[pool](rows) if rows.shape[1] else np.zeros((3, 16), dtype="float32") for rows in layers]


@pytest.mark.issue(37)
@pytest.mark.parametrize("pool", POOLS)
def test_embed_pools_the_vectors_of_each_text(pool: str, bilm_path: Path, text_path: Path, tmp_path: Path) -> None:
    call = ["embed", str(bilm_path), str(text_path), str(tmp_path / "out.npz"), "--pool", pool, "--store", "both"]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 0, result.output
    arrays, wanted = _read(tmp_path / "out.npz"), _pooled(bilm_path, pool)
    assert arrays["lengths"].tolist() == [7, 0, 3] and arrays["layers"].shape == (3, 3, 16)
    np.testing.assert_allclose(arrays["layers"], np.stack(wanted, axis=1), atol=1e-6)
    mixed = [POOLS[pool](rows.mean(axis=0)) if rows.shape[1] else np.zeros(16) for rows in _layers(bilm_path)]
    np.testing.assert_allclose(arrays["mixed"], np.stack(mixed), atol=1e-6)


def _layers(bilm_path: Path) -> List[Any]:
    return load_bilm(bilm_path).embed([line.split() for line in LINES])


@pytest.mark.issue(37)
@pytest.mark.parametrize("option, select", [("--all", slice(None)), ("--top", -1), ("--average", None)])
def test_embed_pools_into_hdf5(option: str, select: Any, bilm_path: Path, text_path: Path, tmp_path: Path) -> None:
    call = ["embed", str(bilm_path), str(text_path), str(tmp_path / "out.h5"), "--pool", "mean", option]
    assert CliRunner().invoke(app, call).exit_code == 0
    with h5py.File(tmp_path / "out.h5", "r") as file:
        assert len(file) == 4
        for number, wanted in enumerate(_pooled(bilm_path, "mean")):
            wanted = wanted.mean(axis=0) if select is None else wanted[select]
            np.testing.assert_allclose(file[str(number)][()], wanted, atol=1e-6)


@pytest.mark.issue(37)
@pytest.mark.parametrize("output", ["out.spacy", "folder"])
@pytest.mark.parametrize("store", ["mixed", "layers", "both"])
def test_embed_pools_into_docs(output: str, store: str, bilm_path: Path, text_path: Path, tmp_path: Path) -> None:
    nlp = spacy.blank("xx")
    docs = [Doc(nlp.vocab, words=line.split()) for line in LINES]
    docs[0].user_data["source"] = "mine"
    DocBin(store_user_data=True, docs=docs).to_disk(tmp_path / "in.spacy")
    options = ["--pool", "max", "--store", store, "--dtype", "float16"]
    call = ["embed", str(bilm_path), str(tmp_path / "in.spacy"), str(tmp_path / output), *options]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 0, result.output
    file = tmp_path / output if output.endswith(".spacy") else tmp_path / output / "part-000000.spacy"
    found = list(DocBin().from_disk(file).get_docs(nlp.vocab))
    keys = {"mixed": ["elmo_pooled"], "layers": ["elmo_pooled_layers"], "both": ["elmo_pooled", "elmo_pooled_layers"]}
    for i, (doc, layers) in enumerate(zip(found, _pooled(bilm_path, "max"))):
        assert sorted(doc.user_data) == sorted([*keys[store], *(["source"] if i == 0 else [])])
        if store != "mixed":
            assert doc.user_data["elmo_pooled_layers"].dtype == np.float16
            np.testing.assert_allclose(doc.user_data["elmo_pooled_layers"], layers, atol=2e-3)
        if store != "layers":
            assert doc.user_data["elmo_pooled"].shape == (16,)


@pytest.mark.issue(37)
def test_words_that_are_not_read_are_not_pooled(bilm_path: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(
        '{"words": [" ", "the", "cat", ""]}\n{"words": ["the", "cat"]}\n', encoding="utf8"
    )
    for pool in POOLS:
        call = ["embed", str(bilm_path), str(tmp_path / "in.jsonl"), str(tmp_path / f"{pool}.npz"), "--pool", pool]
        assert CliRunner().invoke(app, call).exit_code == 0
        first, second = _read(tmp_path / f"{pool}.npz")["mixed"]
        np.testing.assert_allclose(first, second, atol=1e-6)


@pytest.mark.issue(37)
def test_pooling_nothing_gives_no_rows(bilm_path: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"")
    call = ["embed", str(bilm_path), str(tmp_path / "in.txt"), str(tmp_path / "out.npz"), "--pool", "mean"]
    assert CliRunner().invoke(app, call).exit_code == 0
    assert _read(tmp_path / "out.npz")["mixed"].shape == (0, 16)
    assert CliRunner().invoke(app, [*call[:-1], "sum", "--force"]).exit_code == 2
