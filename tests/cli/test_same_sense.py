"""`elmo same-sense` with a file of pairs."""

import gzip
import json
from pathlib import Path
from typing import Any, List

import pytest
from typer.testing import CliRunner

from spacy_elmo.analysis import same_sense as _module
from spacy_elmo.cli._app import app

FIRST, SECOND = "The cat sat on the mat.", "My mats are new. The cats sat."
PAIRS = [
    {"word": "mat", "first": FIRST, "second": SECOND, "second_word": "mats"},
    {"word": "sat", "first": FIRST, "second": SECOND},
    {"word": "tr\xe8s", "first": "tr\xe8s bon", "second": 'il dit "tr\xe8s"'},
]
ROWS = ["\t".join(pair.get(name, "") for name in ("word", "first", "second", "second_word")) for pair in PAIRS]
NAMED = ["\t".join(("id", "second", "first", "word", "second_word"))] + [
    "\t".join([str(i), pair["second"], pair["first"], pair["word"], pair.get("second_word", "")])
    for i, pair in enumerate(PAIRS)
]
FILES = {
    "pairs.tsv": "\n".join(ROWS),
    "named.tsv": "\r\n".join(["", *NAMED, ""]),
    "mac.txt": "\r".join(["word\tfirst\tsecond\tsecond_word", *ROWS]),
    "pairs.jsonl": "\n".join(map(json.dumps, PAIRS)),
    "pairs.json": json.dumps(PAIRS, indent=1, ensure_ascii=False),
    "pairs.tsv.gz": "\n".join(ROWS),
}
pytestmark = pytest.mark.issue(37)


def _run(*args: Any, **settings: Any) -> Any:
    return CliRunner().invoke(app, ["same-sense", *map(str, args)], **settings)


def _single(pair: Any, bilm: Path) -> Any:
    options = ["--word", pair["word"], "--second-word", pair.get("second_word", pair["word"])]
    return json.loads(_run(pair["first"], pair["second"], *options, "--bilm", bilm, "--json").stdout)


@pytest.mark.parametrize("name", FILES)
def test_every_pair_of_a_file_is_compared(name: str, bilm_path: Path, tmp_path: Path) -> None:
    content = FILES[name].encode("utf8")
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else b"\xef\xbb\xbf" + content)
    result = _run("--pairs", tmp_path / name, "--bilm", bilm_path, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["pairs"]
    assert [(pair["word"], pair["second_word"]) for pair in found] == [("mat", "mats"), ("sat", "sat")] + [
        ("tr\xe8s",) * 2
    ]
    for pair, given in zip(found, PAIRS):
        assert pair["cosines"] == pytest.approx(_single(given, bilm_path)["cosines"], abs=1e-5)
        assert pair["first"] == given["first"] and pair["second"] == given["second"]


def test_pairs_are_read_from_stdin_and_in_batches(bilm_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = _run("--pairs", "-", "--bilm", bilm_path, "--tsv", input="\n".join(ROWS).encode("utf8"))
    monkeypatch.setattr(_module, "BATCH", 1)
    alone = _run("--pairs", "-", "--bilm", bilm_path, "--tsv", input="\n".join(map(json.dumps, PAIRS)).encode("utf8"))
    assert together.exit_code == 0 == alone.exit_code, together.output
    header, *rows = [line.split("\t") for line in together.stdout.splitlines()]
    texts = ["word", "second_word", "first", "second"]
    assert header == [*texts, "0", "1", "2", "mean", "probability", "is_same"] and len(rows) == 3
    assert all(row[-2:] == ["", ""] for row in rows)  # no calibration
    for row, other in zip(rows, [line.split("\t") for line in alone.stdout.splitlines()[1:]]):
        assert [float(cell) for cell in row[4:8]] == pytest.approx([float(cell) for cell in other[4:8]], abs=2e-4)


def test_a_table_has_a_row_per_pair(bilm_path: Path, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("\n".join(ROWS), encoding="utf8")
    shown = _run("--pairs", tmp_path / "a.tsv", "--bilm", bilm_path).stdout
    assert "mat, mats" in shown and "no calibration" in shown and "same sense" not in shown
    packaged = _run("--pairs", tmp_path / "a.tsv").stdout
    assert "same sense" in packaged and packaged.count("%") == 3


@pytest.mark.parametrize(
    "content, told",
    [
        ("mat\tThe mat.\tNo such word.", "The second sentence of PATH:1 has 0 occurrences of the word 'mat'"),
        ('\n{"word": "mat", "first": "a", "second": "mat"}', "The first sentence of PATH:2 has 0 occurrences"),
        ("mat\tThe mat.", "at PATH:1 has no second"),
        ("\n\n", "has no pairs"),
        ('{"word": "mat", "first": 5}', "at PATH:1 has no first and no second"),
        ('{"word": "mat"', "not valid JSON"),
        ("[5]", "element 1"),
    ],
)
def test_a_pair_that_cannot_be_compared_is_named(content: str, told: str, bilm_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(content, encoding="utf8")
    result = _run("--pairs", path, "--bilm", bilm_path)
    shown = "".join(result.output.split())
    assert result.exit_code == 1 and "".join(told.replace("PATH", str(path)).split()) in shown, result.output


@pytest.mark.parametrize(
    "args, told",
    [
        ([], "FIRST, SECOND, --word missing"),
        ([FIRST, SECOND], "--word missing"),
        ([FIRST, "--word", "mat"], "SECOND missing"),
        (["--pairs", __file__, "--word", "mat"], "--word would be ignored"),
        ([FIRST, SECOND, "--word", "sat", "--json", "--tsv"], "Choose one"),
    ],
)
def test_arguments_of_a_pair_and_of_a_file_are_not_mixed(args: List[str], told: str) -> None:
    result = _run(*args)
    assert result.exit_code == 1 and told in " ".join(result.output.split()), result.output


def test_the_sentence_that_lacks_the_word_is_named(bilm_path: Path) -> None:
    second = _run(FIRST, SECOND, "--word", "mat", "--bilm", bilm_path)
    assert "EL381" in second.output and "The second sentence has 0" in " ".join(second.output.split())
    first = _run(SECOND, FIRST, "--word", "mat", "--bilm", bilm_path)
    assert "The first sentence has 0" in " ".join(first.output.split()) and "'My' 'mats' 'are'" in first.output
