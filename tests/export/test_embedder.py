"""`Embedder`, the callable for engines that pass batches: same vectors in each engine, loaded once in a process."""

import json
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
import spacy
from export.running import TEXTS, WORDS, check_rows, embed_texts, make_bilm
from spacy.tokens import Doc

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.export import Embedder


@pytest.fixture
def path(tmp_path: Path) -> str:
    save_bilm(make_bilm(), tmp_path / "bilm")
    return str(tmp_path / "bilm")


@pytest.mark.parametrize("column, values", [("text", TEXTS), ("tokens", WORDS)])
def test_a_dictionary_gets_a_column_of_arrays(column: str, values: Any, path: str) -> None:
    batch = {"id": list(range(4)), column: values}
    found = Embedder(path, column=column)(batch)
    assert found["id"] == batch["id"] and list(batch) == ["id", column]
    check_rows(found["elmo"], embed_texts(path))
    assert (list(found["elmo_tokens"]) == WORDS) if column == "text" else "elmo_tokens" not in found


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_arrow_gets_lists_of_fixed_size_lists(dtype: str, path: str) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    table = pa.table({"id": range(4), "words": WORDS})
    found = Embedder(path, column="words", output="v", store="both", dtype=dtype)(table)
    assert found.schema.names == ["id", "words", "v", "v_layer_0", "v_layer_1", "v_layer_2"]
    assert found.schema.field("v").type == pa.list_(pa.list_(getattr(pa, dtype)(), 16))
    atol = 1e-6 if dtype == "float32" else 2e-3
    check_rows(found["v"].to_pylist(), embed_texts(path), atol)
    for j in range(3):
        check_rows(found[f"v_layer_{j}"].to_pylist(), [rows[j] for rows in embed_texts(path, layers="all")], atol)
    (batch,) = table.to_batches()
    assert isinstance(Embedder(path, column="words")(batch), pa.RecordBatch)
    pooled = Embedder(path, column="words", pool="mean")(batch)
    assert pooled.schema.field("elmo").type == pa.list_(pa.float32(), 16)
    means = [rows.mean(axis=0) if len(rows) else np.zeros(16) for rows in embed_texts(path)]
    check_rows(pooled["elmo"].to_pylist(), means)
    lists = pa.schema({"id": pa.int64(), "words": pa.list_(pa.string()), "elmo": pa.list_(pa.float32())})
    check_rows(pooled.cast(lists)["elmo"].to_pylist(), means)  # for Spark, which has no lists of a fixed size
    (series,) = Embedder(path, column="words")(table.slice(0, 1)).column("elmo").combine_chunks().to_pylist()
    check_rows([series], embed_texts(path)[:1])  # as Daft asks for it
    assert Embedder(path, column="words")(table.slice(0, 0)).num_rows == 0
    for pool, choose in (("first", lambda rows: rows[0]), ("last", lambda rows: rows[-1]), ("max", lambda r: r.max(0))):
        found = Embedder(path, pool=pool)({"text": [*TEXTS, None]})["elmo"]
        assert found.shape == (5, 16)
        check_rows(
            found, [choose(rows) if len(rows) else np.zeros(16) for rows in [*embed_texts(path), embed_texts(path)[1]]]
        )


def test_a_copy_in_another_thread_or_from_a_pickle_gives_the_same(path: str) -> None:
    embedder = Embedder(path)
    content = pickle.dumps(embedder)
    assert len(content) < 1000
    batches = [{"text": [text] * n} for n in (1, 5, 9) for text in TEXTS] * 4
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(pickle.loads(content), batches))
    for batch, result in zip(batches, results):
        check_rows(result["elmo"], [embed_texts(path)[TEXTS.index(batch["text"][0])]] * len(batch["text"]))


def test_a_pipeline_tokenizes_and_mixes(path: str, tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    elmo: Any = nlp.add_pipe("elmo", config={"weights": path, "mix": {"initial_weights": [0.0, 0.0, 5.0]}})
    elmo.ensure_bilm()
    nlp.add_pipe("merge_entities")
    nlp.to_disk(tmp_path / "pipeline")
    text = "The cat sat. It didn't move!"
    found = Embedder(str(tmp_path / "pipeline"))({"text": [text]})
    doc: Doc = nlp(text)
    assert found["elmo_tokens"][0] == [token.text for token in doc]
    np.testing.assert_allclose(found["elmo"][0], doc._.elmo, atol=1e-6)
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(ValueError, match="no component 'elmo'"):
        Embedder(str(tmp_path / "blank"))({"text": [text]})


@pytest.mark.issue(48)
@pytest.mark.parametrize("settings", [{}, {"store": "both"}, {"pool": "max", "store": "both"}, {"dtype": "float16"}])
@pytest.mark.parametrize("column, values", [("text", TEXTS), ("words", WORDS)])
def test_every_batch_has_the_same_columns(column: str, values: Any, settings: Any, path: str) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    embedder = Embedder(path, column=column, **settings)
    full = embedder({column: values})
    schema = embedder(pa.table({column: values})).schema
    for other in ([*values, None], [None, float("nan")], []):
        found = embedder({column: other})
        assert list(found) == list(full) and {len(rows) for rows in found.values()} == {len(other)}
        other = [None if isinstance(value, float) else value for value in other]
        for kind in (
            schema.field(column).type,
            None if not other[:1] or other[0] is None else schema.field(column).type,
        ):
            table = embedder(pa.table({column: pa.array(other, kind)}))
            assert table.schema.field("elmo") == schema.field("elmo") and table.schema.names == schema.names
            assert len(table) == len(other)


@pytest.mark.issue(48)
@pytest.mark.parametrize("lang", [None, "en"])
def test_texts_of_every_kind_give_the_same_vectors(lang: Any, path: str) -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    embedder = Embedder(path, lang=lang)
    texts = ["the cat, it sat.", "a dog"]
    expected = embedder({"text": texts})
    n_tokens = 4 if lang is None else 6
    assert [len(tokens) for tokens in expected["elmo_tokens"]] == [n_tokens, 2]
    frame = pandas.DataFrame({"text": [*texts, None]})
    for batch in (
        {"text": np.array(texts)},
        {"text": np.array([*texts, float("nan")], dtype=object)},
        {"text": tuple(map(np.str_, texts))},
        {"text": [*texts, pandas.NA, pandas.NaT, np.float32("nan"), np.ma.masked]},
        {"text": frame["text"]},
        frame,
    ):
        found = embedder(batch)
        check_rows(found["elmo"][:2], expected["elmo"])
        assert not any(len(rows) for rows in found["elmo"][2:])
    with pytest.raises(ValueError, match="a null among its words"):
        embedder({"text": [["the", pandas.NA]]})
    assert embedder({"text": ["a \ud800"]})["elmo_tokens"] == [["a", "\ufffd"]]
    words = Embedder(path, column="words")
    check_rows(
        words({"words": np.array([["the", "cat"], ["a", "dog"]])})["elmo"],
        words({"words": [("the", "cat"), ["a", "dog"]]})["elmo"],
    )


EMPTY_FIRST = [None, "", *TEXTS]  # the first batch of two has no word


def embed_in(kind: str, embedder: Embedder, column: str, values: List[Any]) -> Any:
    """The column "elmo" of Hugging Face `datasets` after `map`, in a format; batches of two rows."""
    datasets = pytest.importorskip("datasets", reason="needs datasets")
    pytest.importorskip(kind if kind in ("pandas", "polars") else "datasets", reason=f"needs {kind}")
    datasets.disable_progress_bars()
    item = datasets.Value("string")
    features = datasets.Features({column: item if column == "text" else datasets.Sequence(item)})
    dataset = datasets.Dataset.from_dict({column: values}, features=features).with_format(
        None if kind in ("default", "streamed") else kind
    )
    if kind == "streamed":
        return [row["elmo"] for row in dataset.to_iterable_dataset().map(embedder, batched=True, batch_size=2)]
    found = dataset.map(embedder, batched=True, batch_size=2, load_from_cache_file=False).with_format(None)
    if column == "text" and embedder.pool is None:
        assert [list(tokens) for tokens in found["elmo_tokens"]] == [(text or "").split() for text in values]
    assert "float64" not in str(found.features["elmo"])
    return found["elmo"]


@pytest.mark.issue(59)
@pytest.mark.parametrize("pool", [None, "mean"])
@pytest.mark.parametrize("column", ["text", "tokens"])
@pytest.mark.parametrize("kind", ["default", "numpy", "arrow", "torch", "pandas", "polars", "streamed"])
def test_datasets_maps_every_format(kind: str, column: str, pool: Any, path: str) -> None:
    values: List[Any] = TEXTS if column == "text" else WORDS
    expected = embed_texts(path)
    if kind != "pandas":  # whose empty lists have no type
        values, expected = [*([None, ""] if column == "text" else [None, []]), *values], [*[expected[1]] * 2, *expected]
    if pool:
        expected = [rows.mean(axis=0) if len(rows) else np.zeros(16) for rows in expected]
    check_rows(embed_in(kind, Embedder(path, column=column, pool=pool), column, values), expected)


@pytest.mark.issue(59)
@pytest.mark.parametrize("pool", [None, "mean"])
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_data_frame_gets_columns(library: str, pool: Any, path: str) -> None:
    module: Any = pytest.importorskip(library, reason=f"needs {library}")
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    frame = module.DataFrame({"id": range(4), "text": TEXTS})
    if library == "pandas":
        frame = frame.set_index(np.array([7, 7, 5, 3]))
    found = Embedder(path, pool=pool)(frame)
    names = ["id", "text", *([] if pool else ["elmo_tokens"]), "elmo"]
    assert type(found) is type(frame) and list(found.columns) == names and list(frame.columns) == names[:2]
    expected = embed_texts(path)
    if pool:
        expected = [rows.mean(axis=0) if len(rows) else np.zeros(16) for rows in expected]
    check_rows(list(found["elmo"]), expected)
    table = found.to_arrow() if library == "polars" else pa.Table.from_pandas(found)
    check_rows(table["elmo"].to_pylist(), expected)
    assert "float" in str(table.schema.field("elmo").type) and "double" not in str(table.schema.field("elmo").type)
    if library == "pandas":
        assert list(found.index) == [7, 7, 5, 3]
        if not pool:
            vectors = found["elmo"].explode().dropna()
            assert len(vectors) == sum(map(len, WORDS)) and vectors.iloc[0].shape == (16,)
    again = Embedder(path, pool=pool)(found)
    assert list(again.columns) == names and len(Embedder(path, pool=pool)(frame[:0])) == 0
    with pytest.raises(ValueError, match="no column 'words' in the batch, which has: id, text"):
        Embedder(path, column="words")(frame)


@pytest.mark.issue(59)
def test_arrow_converts_the_columns_of_a_dictionary(path: str) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    for texts in (TEXTS, EMPTY_FIRST, [None, ""], []):
        found = Embedder(path)({"text": pa.array(texts, pa.string()).to_pylist()})
        for columns in (found, pickle.loads(pickle.dumps(found))):
            table = pa.table(columns)
            assert table.schema.field("elmo").type == pa.list_(pa.list_(pa.float32(), 16))
            assert len(table) == len(texts) == len(found["elmo"])
            tokens = [(text or "").split() for text in texts]
            assert table["elmo_tokens"].to_pylist() == tokens
            check_rows(table["elmo"].to_pylist(), load_bilm(path).embed(tokens, layers="mean"))


@pytest.mark.issue(48)
@pytest.mark.parametrize(
    "value, problem",
    [
        (b"the cat", r"b'the cat' \(bytes\)"),
        (np.bytes_(b"the cat"), "bytes"),
        (12, r"12 \(int\)"),
        (np.float32(1.5), "float32"),
        ({"text": "the"}, "dict"),
        (["the", None], "a null among its words"),
        (["the", float("nan")], "a null among its words"),
        (np.array(["the", 3], dtype=object), r"3 \(int\) among its words"),
        ([b"the"], r"bytes\) among its words"),
        (np.array([1, 2]), "among its words"),
        (np.array([["the"]]), "ndarray"),
    ],
    ids=str,
)
def test_values_that_are_no_texts_are_errors(value: Any, problem: str, path: str) -> None:
    with pytest.raises(ValueError, match=f"Row 1 of the column 'text' .*{problem}"):
        Embedder(path)({"text": ["the cat", value]})
    for settings, batch, message in (
        ({"pool": "median"}, {}, "pool is 'median'"),
        ({"store": "all"}, {}, "store is 'all'"),
        ({"precision": "int4"}, {}, "precision is 'int4'"),
        ({"batch_size": 0}, {}, "batch_size is 0, should be at least 1"),
        ({}, {"words": ["a"]}, "no column 'text' in the batch, which has: words"),
        ({"model": "nowhere"}, {"text": ["a"]}, "nowhere"),
        ({}, {"text": "a cat"}, r"'text' is 'a cat' \(str\), should be a list of texts.*batched=True"),
    ):
        with pytest.raises(ValueError, match=message):
            Embedder(**{"model": path, **settings})(batch)


@pytest.mark.issue(48)
def test_a_pipeline_with_a_prefix_reads_long_texts(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"prefix": "context", "weights": path})
    nlp.max_length = 10
    nlp.to_disk(tmp_path / "pipeline")
    monkeypatch.setenv("HOME", str(tmp_path))
    words = ["the", "cat", "sat", "on", "the", "mat"]
    for lang in (None, "en"):
        found = Embedder("~/pipeline", lang=lang, store="both")({"text": [" ".join(words)]})
        check_rows(found["elmo"], load_bilm(path).embed([words], layers="mean"))
        check_rows(found["elmo_layer_1"], [load_bilm(path).embed([words])[0][1]])
    with pytest.raises(ValueError, match="lang is 'de', but the pipeline '~/pipeline' .* 'en'"):
        Embedder("~/pipeline", lang="de")({"text": ["a"]})


# Where a biLM is, and its name for an `Embedder`, below a folder. Links lead to folders elsewhere.
MODELS = {
    "bilm": "bilm",
    "pipeline": "pipeline",
    "linked bilm": "link",
    "linked folder in a pipeline": "pipeline",
    "HDF5 file": "bilm/weights.hdf5",
    "options beside an HDF5 file": "bilm/weights.hdf5",
    "component of a pipeline": "pipeline#elmo",
}


@pytest.mark.issue(48)
@pytest.mark.issue(59)
@pytest.mark.parametrize("kind", MODELS)
def test_replaced_files_give_another_pickle_and_other_vectors(kind: str, tmp_path: Path) -> None:
    path, model, batch = tmp_path / "bilm", str(tmp_path / MODELS[kind]), {"text": TEXTS}
    if kind == "linked bilm":
        Path(model).symlink_to(path, target_is_directory=True)

    def save(sign: int) -> None:
        bilm = make_bilm()
        for parameter in bilm.network.parameters():
            parameter.data.mul_(1 if kind.startswith("options") else sign)
        save_bilm(bilm, path, format="bilm-tf" if "HDF5" in kind else "native", force=True)
        if kind.startswith("options") and sign < 0:
            options = path / "options.json"
            settings = json.loads(options.read_text())
            settings["lstm"]["use_skip_connections"] = not settings["lstm"]["use_skip_connections"]
            options.write_text(json.dumps(settings))
        if MODELS[kind].startswith("pipeline"):
            nlp = spacy.blank("en")
            nlp.add_pipe("elmo", config={"weights": str(path)})
            nlp.to_disk(tmp_path / "pipeline")
        folder = tmp_path / "pipeline" / "elmo"
        if kind.startswith("linked folder") and not folder.is_symlink():
            folder.rename(tmp_path / "elsewhere")
            folder.symlink_to(tmp_path / "elsewhere", target_is_directory=True)
            (tmp_path / "elsewhere" / "loop").symlink_to(tmp_path / "pipeline", target_is_directory=True)
        for file in tmp_path.rglob("*"):
            os.utime(file, (1, 1))  # as after `rsync` or in an image

    save(1)
    embedder, first = Embedder(model), pickle.dumps(Embedder(model))
    before = embedder(batch)["elmo"][0]
    assert pickle.loads(first) == embedder and pickle.dumps(pickle.loads(first)) == first
    save(-1)
    assert pickle.dumps(embedder) != first
    assert np.abs(embedder(batch)["elmo"][0] - before).max() > 1e-3
    save(1)
    assert pickle.dumps(embedder) == first


@pytest.mark.issue(60)
@pytest.mark.parametrize("library", ["dictionary", "arrow", "pandas"])
def test_sentences_of_tokens_are_read_one_by_one(library: str, path: str) -> None:
    """The columns of `Doc.to_json`."""
    nlp = spacy.blank("en")
    docs = [Doc(nlp.vocab, words=["the", "cat", "sat", "the"], sent_starts=starts) for starts in ([1, 0, 0, 1], None)]
    records = [doc.to_json() for doc in docs]
    batch: Any = {name: [record.get(name) for record in records] for name in ("text", "tokens", "sents")}
    if library == "arrow":
        batch = pytest.importorskip("pyarrow", reason="needs pyarrow").table(batch)
    elif library == "pandas":
        batch = pytest.importorskip("pandas", reason="needs pandas").DataFrame(batch)
    found = Embedder(path, column="tokens")(batch)["elmo"]
    bilm = load_bilm(path)
    divided = np.concatenate(bilm.embed([["the", "cat", "sat"], ["the"]], layers="mean"))
    whole = bilm.embed([["the", "cat", "sat", "the"]], layers="mean")[0]
    check_rows(found.to_pylist() if library == "arrow" else found, [divided, whole])


@pytest.mark.issue(59)
@pytest.mark.parametrize("library", ["dictionary", "arrow", "pandas"])
def test_tokens_with_places_in_the_text_are_words(library: str, path: str) -> None:
    tokens = []
    for words in WORDS:
        ends = [len(" ".join(words[: i + 1])) for i in range(len(words))]
        tokens.append([{"start": end - len(word), "end": end} for word, end in zip(words, ends)])
    batch: Any = {"text": TEXTS, "tokens": tokens}
    if library == "arrow":
        batch = pytest.importorskip("pyarrow", reason="needs pyarrow").table(batch)
    elif library == "pandas":
        batch = pytest.importorskip("pandas", reason="needs pandas").DataFrame(batch)
    found = Embedder(path, column="tokens")(batch)["elmo"]
    check_rows(found.to_pylist() if library == "arrow" else found, embed_texts(path))
