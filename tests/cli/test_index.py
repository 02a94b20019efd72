"""`elmo index`, `neighbors` and `senses`: good calls, hostile texts, and mistakes."""

import json

import pytest
import torch
from cli.calls import call, call_json, refused, told

from spacy_elmo.analysis.index_build import IndexBuilder
from spacy_elmo.analysis.token_store import STORE_FILE
from spacy_elmo.weights import load_bilm, save_bilm

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")
LINES = [
    "the cat sat on the mat .",
    "a bank of the river \x1b[31m \u202e <script>",
    "my bank lends money .",
    "Bank on it",
] * 3
SENTENCE = "the cat sat on the bank"


@pytest.fixture(scope="module")
def folder(bilm, tmp_path_factory):
    """A biLM, a corpus and its index."""
    folder = tmp_path_factory.mktemp("index")
    save_bilm(bilm, folder / "bilm")
    (folder / "lines.txt").write_text("\n".join(f"{line} {i}" for i, line in enumerate(LINES)), encoding="utf8")
    call("index", folder / "lines.txt", folder / "index", "--bilm", folder / "bilm")
    return folder


def test_stopped_build_says_how_to_go_on(folder, tmp_path, monkeypatch):
    command = ["index", folder / "lines.txt", tmp_path / "index", "--bilm", folder / "bilm"]
    with monkeypatch.context() as patched:
        patched.setattr(IndexBuilder, "add", lambda self, *_: self.stop())  # as a signal would
        assert "same command continues" in told(*command, code=1)
        assert "EL391" in refused("neighbors", tmp_path / "index", SENTENCE, "-w", "cat")
    call(*command)
    before = {file.name: file.read_bytes() for file in (tmp_path / "index").iterdir()}
    with monkeypatch.context() as patched:
        patched.setattr(IndexBuilder, "add", lambda self, *_: self.stop())
        assert "The index is as it was" in told(*command, "--force", code=1)
    assert {file.name: file.read_bytes() for file in (tmp_path / "index").iterdir()} == before
    call("neighbors", tmp_path / "index", SENTENCE, "-w", "cat")


@pytest.mark.issue(60)
def test_stopped_build_from_a_stream_does_not_continue(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(IndexBuilder, "add", lambda self, *_: self.stop())  # as a signal would
    shown = told("index", "-", tmp_path / "index", "--bilm", folder / "bilm", code=1, input=b"the cat sat\n")
    assert "'-', a stream, is lost" in shown and "continues" not in shown and "--force" in shown


def test_index_is_checked_and_neighbors_are_lines_without_control_characters(folder):
    record = call_json("index", folder / "index", "--check")
    n_tokens = sum(len(line.split()) + 1 for line in LINES)
    assert record["tokens"] == n_tokens and record["documents"] == 1 and record["layer"] == 2
    assert record["recall@10"] == 1 and record["bilm"] == str(folder / "bilm")
    result = call("neighbors", folder / "index", SENTENCE, "--word", "bank", "--k", 50)
    assert "<script>" in result.stdout and "\x1b[31m" not in result.stdout and "\u202e" not in result.stdout
    same = call("neighbors", folder / "index", SENTENCE, "--word", "bank", "--same-word", "--json")
    record = json.loads(same.stdout)
    assert record["sentence"][record["position"]] == "bank" and len(record["neighbors"]) == 9
    assert {one["word"].lower() for one in record["neighbors"]} == {"bank"}
    assert all(one["words"][one["position"]] == one["word"] for one in record["neighbors"])


def test_senses_writes_picture_and_page(folder, tmp_path):
    files = ["--picture", tmp_path / "bank.svg", "--html", tmp_path / "bank.html"]
    result = call("senses", folder / "index", "Bank", *files)
    assert "9 uses" in result.stdout and "\x1b[31m" not in result.stdout
    page = (tmp_path / "bank.html").read_text(encoding="utf8")
    assert "&lt;script&gt;" in page and page.count("<script>") == 1
    assert (tmp_path / "bank.svg").stat().st_size > 1000
    assert "EL134" in refused("senses", folder / "index", "bank", *files)
    upper = call_json("senses", folder / "index", "Bank", "--match-case")
    assert [use["word"] for use in upper["uses"]] == ["Bank"] * 3
    found = call_json("senses", folder / "index", "bank", "--n-senses", 2)
    assert sum(group["size"] for group in found["groups"]) == 9 == len(found["uses"])


def test_mistakes_are_clear(folder, novels, tmp_path):
    index, novel = folder / "index", novels / "index"
    senses, picture = ("senses", novel, "train", "--n-senses", 2), ("--picture", tmp_path / "a.png")
    new = ("index", folder / "lines.txt", tmp_path / "new", "--bilm", folder / "bilm")
    two = ("--picture", tmp_path / "a.png", "--html", tmp_path / "." / "a.png")
    for message, command in (
        ("EL390", ("neighbors", tmp_path, SENTENCE, "-w", "cat")),
        ("EL390", ("index", tmp_path / "absent", "--delete", "a")),
        ("has no layer", ("neighbors", index, SENTENCE, "-w", "cat", "--layer", 1)),
        ("EL394", ("neighbors", index, SENTENCE, "-w", "cat", "--bilm", "en_elmo_sm")),
        ("EL381", ("neighbors", index, SENTENCE, "-w", "dog")),
        ("The text is empty", ("neighbors", index, " ", "-w", "dog")),
        ("The index has no use of", ("neighbors", index, "a dog", "-w", "dog", "-s")),
        ("The index has no use of", ("senses", index, "ban\x1bk\udcff")),
        ("The index has no use of", ("senses", index, "Cat", "--match-case")),
        ("cannot be clustered", ("senses", index, "cat", "--n-senses", 7)),
        ("A picture cannot be written", ("senses", index, "cat", "--picture", "cat.gif")),
        ("would write the same file", ("senses", index, "bank", *two)),
        ("Nothing to do with the index", ("index", index)),
        ("has no layer '7'", (*new, "--layer", 7)),
        ("There are no texts", ("index", tmp_path / "absent.txt", tmp_path / "new", "--bilm", tmp_path / "absent")),
        ("has a field 'yaer'", (*senses, "--group-by", "yaer")),
        ("does not fit the field 'author'", (*senses, "--group-by", "author", "--bin-width", 10)),
        ("Name it with --group-by", (*senses, "--bin-width", 10)),
        ("Name it with --group-by", ("neighbors", novel, "A train", "-w", "train", "--bin-width", 5)),
        ("--table is for the groups", (*senses, "--table", tmp_path / "a.csv")),
        ("--size is for a picture", (*senses, "--size", "8")),
        ("--size is '16,9'", (*senses, *picture, "--size", "16,9")),
        ("--label is 'group 1'", (*senses, *picture, "--label", "group 1")),
        ("no label 'group 9'", (*senses, *picture, "--label", "group 9=x")),
        ("cannot be named 'document'", ("index", novels / "novels.jsonl", novel, "--keep", "document")),
    ):
        shown = refused(*command)
        assert message in shown and "\x1bk" not in shown, (message, shown)
    assert not list(tmp_path.iterdir())


@pytest.mark.issue(18)
def test_case_is_matched_before_a_sample_is_drawn(folder, tmp_path):
    (tmp_path / "as.txt").write_text("\n".join([*(f"as {i}" for i in range(40)), "AS it is"]), encoding="utf8")
    call("index", tmp_path / "as.txt", tmp_path / "index", "--bilm", folder / "bilm")
    command = ("senses", tmp_path / "index")
    upper = call_json(*command, "AS", "--match-case", "--max-uses", 3)
    assert [use["word"] for use in upper["uses"]] == ["AS"] and (upper["n_uses"], upper["n_sampled"]) == (1, 1)
    page = tmp_path / "as.html"
    sample = call(*command, "as", "--match-case", "--max-uses", 5, "--html", page)
    assert "5 of 40 uses" in sample.stdout and "5 of 40 uses" in page.read_text(encoding="utf8")


NOVELS = [
    {"text": f"The train of ladies left {i} . Her train came in .", "year": 1840 + i, "author": author}
    for author in ("Brontë", "Wells")
    for i in range(12)
]


@pytest.fixture(scope="module")
def novels(folder, tmp_path_factory):
    """An index of JSON texts with authors and years; one has no year."""
    path = tmp_path_factory.mktemp("novels")
    lines = [json.dumps(novel) for novel in [*NOVELS, {"text": "A train .", "author": "Wells", "year": None}]]
    (path / "novels.jsonl").write_text("\n".join(lines), encoding="utf8")
    options = ("--bilm", folder / "bilm", "--running-text", "--lang", "en", "--keep", "year, author,absent")
    result = call("index", path / "novels.jsonl", path / "index", *options, "--json")
    shown = " ".join(result.stderr.split())
    assert "1 document of 25 without the field 'year'" in shown
    assert "No document has the field 'absent'. Fields of the first document: text, year, author" in shown
    assert json.loads(result.stdout)["fields"] == "author, year"
    return path


@pytest.mark.issue(40)
def test_senses_are_compared_between_years_and_authors(novels, tmp_path):
    files = ("--table", tmp_path / "t.csv", "--picture", tmp_path / "t.pdf", "--html", tmp_path / "t.html")
    senses = ("senses", novels / "index", "train", "--n-senses", 2)
    result = call(*senses, "--group-by", "year", "--bin-width", 10, *files)
    shown = " ".join(result.output.split())
    assert "1840–1849 40 20" in shown and "1850–1859 8 4" in shown and "95 % intervals" in shown
    assert "1 use in documents without the field 'year'" in shown
    rows = (tmp_path / "t.csv").read_text(encoding="utf8").splitlines()
    assert rows[0] == "value,from,to,documents,uses,group,n,share,low,high" and len(rows) == 5
    assert rows[1].startswith("1840–1849,1840,1849,20,40,1,")
    assert (tmp_path / "t.pdf").read_bytes().startswith(b"%PDF")
    assert "1850–1859" in (tmp_path / "t.html").read_text(encoding="utf8")
    found = call_json(*senses, "--group-by", "author")
    assert [(row["value"], row["uses"]) for row in found["shares"][::2]] == [("Brontë", 24), ("Wells", 25)]
    by_group = [sum(row["n"] for row in found["shares"][group::2]) for group in (0, 1)]
    assert by_group == [group["size"] for group in found["groups"]]
    assert {use["value"] for use in found["uses"]} == {"Brontë", "Wells"}
    assert len(call_json(*senses, "--group-by", "document")["shares"]) == 2 * 25
    years = call_json(*senses, "--group-by", "year")["shares"]
    assert [row["value"] for row in years[::2]] == [f"{year}–{year + 1}" for year in range(1840, 1852, 2)]


@pytest.mark.issue(48)
def test_senses_take_several_forms_of_a_word(novels, tmp_path):
    senses, page = ("senses", novels / "index"), tmp_path / "a.html"
    counts = [call_json(*senses, *words)["n_uses"] for words in (["train"], ["ladies"], ["ladies", "train"])]
    assert counts == [49, 24, 73]
    assert call_json(*senses, "train", "Train", "TRAIN")["n_uses"] == 49
    assert "no use of 'Ladies'" in refused(*senses, "train", "Ladies", "--match-case")
    shown = told(*senses, "train", "ladies", "--html", page)
    assert "\u201ctrain\u201d, \u201cladies\u201d: 73 uses in" in shown
    for text in (shown, page.read_text(encoding="utf8")):
        assert "not a sense of a dictionary" in text
    assert "no use of 'trains'" in refused(*senses, "train", "trains")


@pytest.mark.issue(40)
@pytest.mark.issue(48)
def test_neighbors_are_compared_between_years(novels, folder, write, tmp_path):
    command = ("neighbors", novels / "index", "The train came in .", "--word", "train", "--k", 2, "--same-word")
    found = call_json(*command, "--group-by", "year", "--bin-width", 10)["neighbors"]
    assert [one["value"] for one in found] == ["1840–1849"] * 2 + ["1850–1859"] * 2
    shown = told(*command, "--group-by", "author")
    assert "author Brontë" in shown and "author Wells" in shown
    assert "value" not in call_json(*command)["neighbors"][0]
    years = [1850, 1850, "unknown", 1850.0, "1850"]  # numbers and texts in one field
    texts = write(*({"text": f"A train {i}", "year": year} for i, year in enumerate(years)))
    call("index", texts, tmp_path / "index", "--bilm", folder / "bilm", "--keep", "year")
    found = call_json("neighbors", tmp_path / "index", "A train", "-w", "train", "-s", "--group-by", "year")
    assert [one["value"] for one in found["neighbors"]] == ["1850"] * 4 + ["unknown"]


@pytest.fixture
def write(tmp_path):
    """Write JSON texts of one name, and give the path."""

    def write_texts(*texts):
        (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(text)}\n" for text in texts), encoding="utf8")
        return tmp_path / "t.jsonl"

    return write_texts


@pytest.mark.issue(18)
def test_index_follows_its_texts_and_documents_are_deleted(folder, write, tmp_path):
    index, words = tmp_path / "index", [{"words": ["a", "the", "Bank"]}, {"words": ["2"]}]
    texts = write(*words)
    result = call("index", texts, index, "--bilm", folder / "bilm", "--content-words", "--layer", "mean", "--json")
    assert json.loads(result.stdout)["tokens"] == 1 and json.loads(result.stdout)["layer"] == "mean"
    again = call("index", texts, index, "--json")
    assert json.loads(again.stdout)["tokens"] == 1 and "2 documents unchanged" in again.stderr
    assert "EL393" in refused("index", texts, index, "--layer", 1)
    assert "has no document" in refused("index", index, "--delete", f"{texts}#1", "--delete", "absent")
    write(*words, *({"words": [f"w{i}"]} for i in range(10)))
    assert call_json("index", texts, index)["documents"] == 12, "nothing was deleted, since one was unknown"
    write(*words)
    again = call("index", texts, index, "--json")
    assert json.loads(again.stdout)["documents"] == 2 and "Deleted 10 documents" in again.stderr
    assert call_json("index", index, "--delete", f"{texts}#1")["tokens"] == 0
    checked = call("index", index, "--check", "--json")
    assert "nothing to check" in checked.stderr and "recall@10" not in json.loads(checked.stdout)
    assert "no tokens" in call("neighbors", index, SENTENCE, "-w", "bank").output
    assert "The index has no use of" in refused("senses", index, "bank")


@pytest.mark.issue(59)
def test_an_index_takes_no_vectors_of_a_pruned_bilm(folder, write, tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    bilm, index, vectors = load_bilm(folder / "bilm"), tmp_path / "index", tmp_path / "vectors"
    save_bilm(bilm, tmp_path / "bilm")
    texts = write({"words": ["a", "bank"]})
    arguments = ("--bilm", tmp_path / "bilm", "--layer", "mean")
    call("embed", tmp_path / "bilm", texts, vectors, "--lang", "none")
    assert "1 Parquet file" in " ".join(call("index", vectors, tmp_path / "of_vectors", *arguments).output.split())
    call("index", texts, index, *arguments)
    with torch.no_grad():
        weight = bilm.network.encoder.layers[0].recurrent_weight
        weight[weight.abs() < weight.abs().median()] = 0.0
    save_bilm(bilm, tmp_path / "bilm", force=True)
    assert "EL393" in refused("index", write({"words": ["the", "bank"]}), index)
    assert "EL394" in refused("neighbors", index, "a bank", "-w", "bank")
    assert "Parquet" not in call("index", vectors, tmp_path / "of_pruned", *arguments).output
    save_bilm(bilm, tmp_path / "half", dtype="float16")  # the same biLM in another dtype searches its index
    call("neighbors", tmp_path / "of_pruned", "a bank", "-w", "bank", "--bilm", tmp_path / "half")


@pytest.mark.issue(18)
@pytest.mark.issue(40)
def test_force_keeps_settings_and_fields_that_can_be_read(folder, write, tmp_path):
    index, texts = tmp_path / "index", write({"words": ["a", "the", "Bank"], "year": 1900, "place": "York"})
    bilm = ("--bilm", folder / "bilm")
    call("index", texts, index, *bilm, "--layer", 1, "--content-words", "--lang", "en", "--keep", "year")
    senses = ("senses", index, "Bank", "--group-by")
    assert "has a field 'place'. Choose one of: document, year" in refused(*senses, "place")
    assert "1 document with changed fields" in told("index", texts, index, "--keep", "place")
    again = call("index", texts, index, "--force", "--json")
    record, shown = json.loads(again.stdout), " ".join(again.stderr.split())
    assert (record["layer"], record["tokens"], record["bilm"]) == (1, 1, str(folder / "bilm"))
    assert "reading: {'lang': 'en'" in shown and "layer: " not in shown
    for field, value in (("year", "1900"), ("place", "York")):
        assert [row["value"] for row in call_json(*senses, field)["shares"]] == [value]
    assert call_json("index", texts, index, "--force", "--all-words")["tokens"] == 3
    (index / STORE_FILE).write_bytes(b"not SQLite")
    unread = call("index", texts, index, "--force", *bilm, "--json")
    assert "of the damaged index" in unread.stderr and json.loads(unread.stdout)["layer"] == 2
