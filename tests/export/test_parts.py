"""`elmo embed` into folders: parts that are complete or absent, continued by the same command, by jobs, with errors."""

import gzip
import json
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest
import srsly
from cli.calls import call, call_json, refused, told
from export.running import make_bilm
from source_kinds import needs_pipes, open_pipe

from spacy_elmo import BiLM, load_bilm, save_bilm
from spacy_elmo.corpora.places import find_sources
from spacy_elmo.export import embed_corpus
from spacy_elmo.export import parts as parts_module
from spacy_elmo.export.parts import Progress

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
dataset = pytest.importorskip("pyarrow.dataset", reason="needs pyarrow")

LINES = [f"the cat number {i} sat on {' '.join(['the mat'] * (i % 4))} ." for i in range(23)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a biLM and 46 texts in two files."""
    save_bilm(make_bilm(), tmp_path / "bilm")
    (tmp_path / "in").mkdir()
    for name in "ab":
        records = [{"id": f"{name}{i}", "year": 1900 + i, "words": line.split()} for i, line in enumerate(LINES)]
        srsly.write_jsonl(tmp_path / "in" / f"{name}.jsonl", records)
    return tmp_path


def embed(place: Path, *options: Any, output: Any = "out", source: Any = "in", **settings: Any) -> Any:
    """Run the command with parts of ten texts."""
    output = output if "://" in str(output) else place / output
    source = source if source == "-" else place / source
    return call("embed", place / "bilm", source, output, "--docs-per-file", 10, *options, **settings)


def parts(folder: Path) -> List[str]:
    """Names of the complete parts."""
    return sorted(path.name for path in folder.glob("part-*.parquet"))


def read(folder: Path) -> Dict[str, Any]:
    """Rows (T, D) by id. Each id occurs once."""
    tables = [pq.read_table(folder / name) for name in parts(folder)]
    ids = [name for table in tables for name in table.column("id").to_pylist()]
    assert len(set(ids)) == len(ids)
    rows = [np.array(row.as_py(), dtype="float32") for table in tables for row in table.column("elmo")]
    return dict(zip(ids, rows))


def wanted(place: Path) -> Dict[str, Any]:
    """Vectors of the library."""
    rows = load_bilm(place / "bilm").embed([line.split() for line in LINES], layers="mean")
    return {f"{name}{i}": vectors for name in "ab" for i, vectors in enumerate(rows)}


def check(found: Dict[str, Any], expected: Dict[str, Any], atol: float = 1e-5) -> None:
    assert set(found) == set(expected)
    for name, rows in expected.items():
        np.testing.assert_allclose(found[name], rows, atol=atol, err_msg=name)


def test_a_folder_has_parquet_with_ids_fields_and_vectors(place: Path) -> None:
    shown = embed(place, "--keep", "id,year", "--store", "both", "--dtype", "float16").stderr
    assert "Saved the vectors of" in shown and "46 texts" in shown
    assert parts(place / "out") == [f"part-0000{i}-0000{k}.parquet" for i in range(2) for k in range(3)]
    file = pq.ParquetFile(place / "out" / "part-00000-00001.parquet")
    assert file.schema_arrow.names == ["id", "year", "tokens", "elmo", *(f"elmo_layer_{j}" for j in range(3))]
    assert file.schema_arrow.field("elmo").type == pa.list_(pa.list_(pa.float16(), 16))
    table = file.read()
    assert table.column("year").to_pylist()[0] == 1910 and table.column("tokens")[0].as_py() == LINES[10].split()
    meta = json.loads(file.schema_arrow.metadata[b"spacy_elmo"])
    assert (meta["width"], meta["dtype"], meta["n_layers"]) == (16, "float16", 2) and len(meta["fingerprint"]) == 12
    check(read(place / "out"), wanted(place), atol=2e-3)
    layers = np.array([np.array(table.column(f"elmo_layer_{j}")[0].as_py()) for j in range(3)])
    np.testing.assert_allclose(layers.mean(axis=0), np.array(table.column("elmo")[0].as_py()), atol=2e-3)


def test_the_same_command_and_jobs_compute_only_what_is_missing(place: Path) -> None:
    embed(place, "--keep", "id")
    out = place / "out"
    times = {name: (out / name).stat().st_mtime_ns for name in parts(out)}
    (out / "part-00000-00001.parquet").unlink()
    (out / "part-00001-00002.parquet").unlink()
    assert "13 texts; 4 files existed already" in " ".join(embed(place, "--keep", "id").stderr.split())
    kept = [name for name in times if (out / name).stat().st_mtime_ns == times[name]]
    assert len(kept) == 4 and parts(out) == sorted(times)
    check(read(out), wanted(place))
    assert "0 texts; 6 files existed" in " ".join(embed(place, "--keep", "id", "--batch-size", 2).stderr.split())
    for jobs in ([1, 2, 3], [3, 2, 1]):  # share a folder
        for job in jobs:
            embed(place, "--keep", "id", "--shard", f"{job}/3", output=f"jobs{jobs[0]}")
        assert len(parts(place / f"jobs{jobs[0]}")) == 6
        check(read(place / f"jobs{jobs[0]}"), wanted(place))


@pytest.mark.parametrize(
    "options, change, message",
    [
        (["--dtype", "float16"], "", "dtype was 'float32', now 'float16'"),
        ([], "bilm", "fingerprint was"),
        ([], "matrix", "fingerprint was"),
        ([], "text", "new or changed"),
        ([], "more", "new or changed"),
        (["--lang", "en"], "", "lang was None, now 'en'"),
    ],
)
def test_another_biLM_setting_or_text_is_refused(
    options: List[str], change: str, message: str, place: Path, request: Any
) -> None:
    embed(place, "--keep", "id")
    if change in ("bilm", "matrix"):
        bilm = make_bilm()
        for name, parameter in bilm.network.named_parameters():
            if change == "bilm" or name == "encoder.layers.1.recurrent_weight":
                parameter.data.mul_(-1 if change == "bilm" else 0.2)
        save_bilm(bilm, place / "bilm", force=True)
    elif change:
        with (place / "in" / ("b.jsonl" if change == "text" else "c.jsonl")).open("a", encoding="utf8") as file:
            file.write('{"id": "new", "words": ["the"]}\n')
    before = {name: (place / "out" / name).stat().st_mtime_ns for name in parts(place / "out")}
    arguments = ["embed", place / "bilm", place / "in", place / "out", "--docs-per-file", 10, "--keep", "id", *options]
    assert message in refused(*arguments)
    assert before == {name: (place / "out" / name).stat().st_mtime_ns for name in parts(place / "out")}
    call(*arguments, "--force")
    assert len(read(place / "out")) == 46 + (change in ("text", "more"))


@pytest.mark.issue(39)
@pytest.mark.parametrize("name", ["mine.txt", "part-00000-abc.snappy.parquet"])
def test_force_removes_nothing_that_others_wrote(name: str, place: Path) -> None:
    for folder in ("out", "own"):
        if folder == "own":
            embed(place, output=folder)
        (place / folder).mkdir(exist_ok=True)
        (place / folder / name).write_bytes(b"of another program")
        for options in ([], ["--force"])[folder == "own" :]:
            assert "did not write" in refused("embed", place / "bilm", place / "in", place / folder, *options)
        assert (place / folder / name).read_bytes() == b"of another program"
    for options in ([], ["--force"]):
        assert "did not write" in refused("embed", place / "bilm", place / "in", place / "in", *options)
    assert sorted(path.name for path in (place / "in").iterdir()) == ["a.jsonl", "b.jsonl"]


@pytest.mark.issue(48)
@pytest.mark.parametrize("output", ["in/out", "in/all.parquet", "in/all.spacy"])
def test_outputs_of_embed_among_the_texts_are_not_read(output: str, place: Path) -> None:
    with (place / "in" / "a.jsonl").open("a", encoding="utf8") as file:
        file.write("{\n")  # the list that names it is no text either
    again = [] if output == "in/out" else ["--force"]
    for options, done in (
        ([], "46 texts"),
        (again, "46 texts" if again else "6 files existed"),
        (["--force"], "46 texts"),
    ):
        assert done in " ".join(embed(place, "--on-error", "skip", *options, output=output).stderr.split())


def _find(place, **settings):
    return [Path(source.name) for source in find_sources(str(place), **settings)]


@pytest.mark.issue(48)
def test_outputs_of_commands_among_the_texts_are_not_read(place: Path) -> None:
    (place / "in" / "a.jsonl").unlink()
    embed(place, "--to", "docbin", output="in/vectors")
    for _ in range(2):
        call("index", place / "in", place / "in" / "index", "--bilm", place / "bilm")
        assert "in 23 sentences" in told("vocab", place / "in", place / "in" / "words.txt", "--force")
    for run, result in (("started", "text/numbers.bin"), ("cached_text", "model-last/weights.safetensors")):
        for name in ("log.jsonl", result):
            path = place / "in" / run / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}\n")
    for output in ("in/words.txt", "in/../in/words.txt"):
        assert _find(place / "in", output=place / output) == [place / "in" / "b.jsonl"]
        assert len(_find(place / "in/**/*.*", output=place / output)) > 5  # a pattern names what it matches
    assert _find(place / "in") == [place / "in" / "b.jsonl"]  # without the vocabulary
    assert len(_find(place / "in" / "vectors")) == 3


@pytest.mark.issue(48)
@pytest.mark.parametrize("output", ["out", "out.npz", "out.parquet"])
def test_texts_that_cannot_be_read_are_skipped_and_listed(output: str, place: Path) -> None:
    with (place / "in" / "a.jsonl").open("a", encoding="utf8") as file:
        file.write('{"words": "the cat"}\n{\n')
    (place / "in" / "c.jsonl.gz").write_bytes(gzip.compress(b'{"id": "c0", "text": "the cat"}\n' * 99)[:-9])
    source = place / "in"
    assert "should be a JSON object" in refused("embed", place / "bilm", source, place / output, "--docs-per-file", 10)
    shown = " ".join(embed(place, "--on-error", "skip", output=output).stderr.split())
    assert "3 texts could not be read" in shown
    lists = list(place.glob("out*/_part-*.skipped.jsonl")) + list(place.glob("*.skipped.jsonl"))
    skipped = [record for path in sorted(lists) for record in srsly.read_jsonl(path)]
    assert [Path(record["place"]).name for record in skipped] == ["a.jsonl:24", "a.jsonl:25", "c.jsonl.gz"]
    assert all(record["error"] for record in skipped)
    for path in (place / "in").iterdir():
        path.write_bytes(b"\xff\n{\n")
    for _ in range(2):  # nothing but errors is an error
        shown = refused("embed", place / "bilm", source, place / "new" / output, "--on-error", "skip")
        assert "None of the 5 texts" in shown, shown
    assert not parts(place / "new" / "out") and (place / "new" / output).exists() == (output == "out")


def test_fields_of_objects_have_dotted_names_and_the_text_is_a_field(place: Path) -> None:
    (place / "texts.jsonl").write_text('{"meta": {"year": 1850}, "text": "the  cat"}\n')
    for pool in ([], ["--pool", "mean"]):
        embed(place, "--keep", "meta.year,text", *pool, "--force", source="texts.jsonl", output="out.parquet")
        table = pq.read_table(place / "out.parquet")
        assert table["meta.year"].to_pylist() == [1850] and len(table["text"]) == 1
    call("index", place / "texts.jsonl", place / "index", "--bilm", place / "bilm", "--keep", "meta.year")
    assert "1850" in call("neighbors", place / "index", "a cat", "--word", "cat", "--group-by", "meta.year").stdout
    (place / "empty.txt").write_text("")
    embed(place, source="empty.txt", output="empty.parquet")
    table = pq.read_table(place / "empty.parquet")
    assert table.num_rows == 0 and table.schema.names == ["id", "tokens", "elmo"]


@pytest.mark.issue(48)
@pytest.mark.parametrize(
    "values, keep, wanted",
    [
        ([1, None, 3.0], "year", [1, None, 3]),
        ([2**60, 2.5, None], "year", [2.0**60, 2.5, None]),
        ([1, "n.d.", None], "year", ["1", "n.d.", ""]),
        ([1, True, [2]], "year", ["1", "true", "[2]"]),
        ([1, 2, 3], "year:text", ["1", "2", "3"]),
        ([None, None, None], "year", ["", "", ""]),
    ],
)
def test_numbers_are_kept_as_numbers(values: List[Any], keep: str, wanted: List[Any], place: Path) -> None:
    (place / "one").mkdir()
    srsly.write_jsonl(place / "one" / "a.jsonl", [{"text": "a b", "year": value} for value in values])
    (place / "one" / "b.txt").write_text("a b\n")  # without fields
    (place / "one" / "c.jsonl").write_text("")
    assert "are written without year" in " ".join(embed(place, "--keep", keep, source="one").stderr.split())
    tables = [pq.read_table(path) for path in sorted((place / "out").glob("part-*"))]
    assert len({str(table.schema) for table in tables}) == 1 and len(tables) == 2
    assert tables[0]["year"].to_pylist() == wanted
    assert tables[1]["year"].to_pylist() == ["" if isinstance(wanted[0], str) else None]
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    assert len(pandas.read_parquet(place / "out")) == 4
    call("embed", place / "bilm", place / "one", place / "out.spacy", "--keep", keep)


@pytest.mark.issue(59)
@pytest.mark.parametrize("number", [2**53 + 1, -(2**60) - 1, 2**63 + 1])
def test_a_number_that_a_fraction_beside_it_would_round_is_an_error(number: int, place: Path) -> None:
    srsly.write_jsonl(place / "a.jsonl", [{"text": "a b", "year": value} for value in (0.5, number)])
    arguments = ["embed", place / "bilm", place / "a.jsonl", place / "a.parquet", "--keep"]
    shown = refused(*arguments, "year")
    assert str(number) in shown and "--keep year:text" in shown and not (place / "a.parquet").exists()
    call(*arguments, "year:text")
    assert pq.read_table(place / "a.parquet")["year"].to_pylist() == ["0.5", str(number)]


@pytest.mark.issue(59)
@pytest.mark.parametrize("output", ["out", "out.parquet", "out.npz", "out.spacy"])
def test_an_id_that_occurs_twice_causes_a_warning(output: str, place: Path) -> None:
    options = ["--keep", "id"] if output != "out.npz" else []
    assert "an id that" not in embed(place, *options, output=output).stderr
    rows = list(srsly.read_jsonl(place / "in" / "b.jsonl"))
    srsly.write_jsonl(place / "in" / "b.jsonl", [*rows, {**rows[0], "id": "a3"}, {**rows[0], "id": "b7"}])
    shown = " ".join(embed(place, *options, "--force", output=output).stderr.split())
    if output != "out.npz":  # whose ids are FILE:LINE
        assert "2 texts have an id that an earlier text has, for instance 'a3'" in shown and "b.jsonl:24" in shown


@pytest.mark.issue(48)
def test_a_number_that_is_none_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "TEXTS_TO_CHECK", 2)
    lines = [{"text": "a", "year": year} for year in (1, 2, "n.d.", 2.5, 2**63, 4)]
    srsly.write_jsonl(place / "a.jsonl", lines)
    arguments = ["embed", place / "bilm", place / "a.jsonl", place / "a.parquet", "--keep"]
    assert "a.jsonl:3 has 'n.d.' in the field year" in refused(*arguments, "year")
    assert "3 texts could not be read" in told(*arguments, "year", "--on-error", "skip")
    assert "6 texts" in told(*arguments, "year:text", "--force")


def test_parquet_is_read_and_pooled(place: Path) -> None:
    embed(place, "--keep", "id,year", output="first.parquet")
    embed(place, "--keep", "id", "--pool", "max", source="first.parquet", output="second")
    table = dataset.dataset(place / "second").to_table()  # as LanceDB reads it
    assert table.schema.names == ["id", "text", "elmo"] and table.schema.field("elmo").type == pa.list_(
        pa.float32(), 16
    )
    expected = {name: rows.max(axis=0) for name, rows in wanted(place).items()}
    found = dict(zip(table.column("id").to_pylist(), map(np.array, table.column("elmo").to_pylist())))
    check(found, expected)
    pq.write_table(pa.table({"title": ["the cat"]}), place / "other.parquet")
    assert "has the columns title" in refused("embed", place / "bilm", place / "other.parquet", place / "third")
    (place / "broken.parquet").write_bytes(b"PAR1nothing")
    assert "cannot be read as Parquet" in refused("embed", place / "bilm", place / "broken.parquet", place / "third")
    assert not (place / "third" / "part-00000-00000.parquet").exists()


def test_an_index_takes_the_vectors_of_a_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss", reason="needs faiss")
    embed(place, "--keep", "id,year", "--store", "layers")
    call("index", place / "in", place / "computed", "--bilm", place / "bilm", "--layer", 1)
    arguments = ["index", place / "out", place / "stored", "--bilm", place / "bilm", "--keep", "year"]
    with monkeypatch.context() as patch:
        patch.setattr(BiLM, "iter_encode", None)
        shown = call(*arguments, "--layer", 1).stderr
    assert "The vectors of 6 Parquet files are used" in shown
    found = [
        call_json("neighbors", place / name, "the cat sat", "--word", "cat", "--bilm", place / "bilm")["neighbors"]
        for name in ("computed", "stored")
    ]
    assert [hit["cosine"] for hit in found[0]] == pytest.approx([hit["cosine"] for hit in found[1]], abs=1e-5)
    call(*arguments, "--layer", "mean", "--force")  # the folder does not have it: it is computed
    pq.write_table(pa.table({"text": ["the cat", "a"]}), place / "in" / "c.parquet")
    embed(place, "--to", "parquet", output="all.parquet")  # ids are the names of documents in an index
    call("index", place / "in", place / "computed", "--bilm", place / "bilm", "--force")
    ids = pq.read_table(place / "all.parquet")["id"].to_pylist()
    query = ("neighbors", place / "computed", "the cat", "--word", "cat", "-k", 99, "--bilm", place / "bilm")
    names = {hit["document"] for hit in call_json(*query)["neighbors"]}
    assert len(ids) == len(set(ids)) == 48 and len(names) > 20 and names <= set(ids)


@pytest.mark.issue(39)
@pytest.mark.parametrize("change", [{"pool": "mean"}, {"inputs": [{"name": "another.txt", "bytes": 3}]}])
def test_a_folder_that_is_begun_again_meanwhile_is_not_mixed(place: Path, change: Any) -> None:
    embed(place)
    path = place / "out" / "_embed.json"
    manifest = path.read_text()
    (place / "out" / "part-00001-00002.parquet").unlink()
    progress = Progress(on_text=lambda doc: path.write_text(json.dumps({**json.loads(manifest), **change})))
    with pytest.raises(ValueError, match="restarted by another command"):
        embed_corpus(place / "bilm", place / "in", place / "out", docs_per_file=10, progress=progress)
    assert "part-00001-00002.parquet" not in parts(place / "out")
    path.write_text(manifest)
    assert embed_corpus(place / "bilm", place / "in", place / "out", docs_per_file=10).n_parts == 1


def test_addresses_are_read_and_written(place: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    for path in sorted((place / "in").iterdir()):
        memory.pipe_file(f"/corpus/in/{path.name}", path.read_bytes())
    try:
        for _ in range(2):
            arguments = ["embed", place / "bilm", "memory://corpus/in", "memory://corpus/out", "--docs-per-file", 10]
            shown = call(*arguments, "--keep", "id").stderr
        assert "6 files existed already" in " ".join(shown.split())
        (place / "copy").mkdir()
        for name in memory.find("/corpus/out"):
            (place / "copy" / Path(name).name).write_bytes(memory.cat_file(name))
        inside = ["embed", place / "bilm", "memory://corpus", "memory://corpus/new", "--docs-per-file", 10]
        assert "46 texts" in told(*inside) and "6 files existed already" in told(*inside)
        assert sorted(path.name for path in (place / "copy").iterdir()) == ["_embed.json", *parts(place / "copy")]
        check(read(place / "copy"), wanted(place))
        assert "cannot be opened" in refused("embed", place / "bilm", "nowhere://a/b.txt", place / "third")
    finally:
        memory.rm("/corpus", recursive=True)


@pytest.mark.issue(39)
def test_columns_of_other_types_are_refused_as_texts_and_kept_as_fields(place: Path) -> None:
    path = place / "other.parquet"
    for column in (pa.array([b"the cat"]), pa.array([12]), pa.array([[1, 84]])):
        pq.write_table(pa.table({"text": column}), path)
        shown = refused("embed", place / "bilm", path, place / "third")
        assert "column 'text'" in shown and "should be strings" in shown, column.type
    dates = pa.array([None, 1], pa.timestamp("us"))
    pq.write_table(pa.table({"text": ["a", "b"], "year": [1990, None], "date": dates}), path)
    call("embed", place / "bilm", path, place / "5.parquet", "--keep", "year,date")
    kept = pq.read_table(place / "5.parquet").select(["year", "date"]).to_pydict()
    assert kept == {"year": [1990, None], "date": ["", "1970-01-01 00:00:00.000001"]}


@pytest.mark.issue(59)
@needs_pipes
def test_a_folder_is_not_continued_from_a_stream_which_may_have_another_text(place: Path) -> None:
    first, second = ("".join(f"{line} {name}\n" for line in LINES) for name in ("first", "second"))
    embed(place, source="-", input=first)
    before = (place / "out" / "part-00000-00002.parquet").read_bytes()
    (place / "out" / "part-00000-00001.parquet").unlink()
    with open_pipe(second.encode()) as pipe:
        for source, settings in (("-", {"input": second}), (pipe, {})):
            error = refused("embed", place / "bilm", source, place / "out", "--docs-per-file", 10, **settings)
            assert f"'{source}' is a stream" in error and "Write it to a file" in error and "--force" in error
    assert parts(place / "out") == ["part-00000-00000.parquet", "part-00000-00002.parquet"]
    assert (place / "out" / "part-00000-00002.parquet").read_bytes() == before
    embed(place, "--force", source="-", input=second)
    assert {row.as_py()[-1] for row in dataset.dataset(place / "out").to_table().column("tokens")} == {"second"}
