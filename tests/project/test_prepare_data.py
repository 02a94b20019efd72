"""Data sets become .spacy files, or an error says where they were looked for."""

import gzip
from pathlib import Path
from typing import Any, Callable, List

import pytest
import srsly
import typer
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab
from typer.testing import CliRunner

SPLITS = ("train", "dev", "test")
PROJECT_DIR = Path(__file__).parents[2] / "project"
# A tab before an empty line, as in the upstream file.
COLUMNS = "Empire\tB-location\nState\tI-location\nis\tO\n\t\nBack\tO\n\n"
CONLLU = """# text = Don't go.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\tMood=Imp\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\tVerbForm=Inf\t0\troot\t_\tSpaceAfter=No
4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_

"""


@pytest.fixture
def script(import_script: Callable[[str], Any]) -> Any:
    return import_script("prepare_data")


def _docs(path: Path) -> List[Doc]:
    return list(DocBin().from_disk(path).get_docs(Vocab()))


def _write_splits(folder: Path, names: List[str], content: bytes) -> None:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(content)


def test_sample_is_prepared(script: Any, tmp_path: Path) -> None:
    counts = script.prepare("sample", tmp_path)
    assert [path.name for path in counts] == ["train.spacy", "dev.spacy", "test.spacy"]
    docs = _docs(tmp_path / "train.spacy")
    assert (len(docs), sum(len(doc) for doc in docs)) == counts[tmp_path / "train.spacy"]
    assert len(docs) >= 100  # or `spacy debug data` fails
    assert max(len(list(doc.sents)) for doc in docs) == script.SAMPLE_SENTENCES_PER_DOC
    assert all(doc.has_annotation(name) for doc in docs for name in ("TAG", "ENT_IOB", "SENT_START"))


@pytest.mark.parametrize(
    "names",
    [
        ["wnut17/wnut17train.conll", "wnut17/emerging.dev.conll", "wnut17/emerging.test.annotated"],
        [f"ner/wnut17/{split}.iob2" for split in SPLITS],
    ],
)
def test_wnut17_is_read_from_each_layout(script: Any, tmp_path: Path, names: List[str]) -> None:
    _write_splits(tmp_path / "local" / Path(names[0]).parent, [Path(name).name for name in names], COLUMNS.encode())
    script.prepare("wnut17", tmp_path / "out", str(tmp_path / "local"))
    first, second = _docs(tmp_path / "out" / "test.spacy")
    assert [token.text for token in first] == ["Empire", "State", "is"]
    assert [(ent.text, ent.label_) for ent in first.ents] == [("Empire State", "location")]
    assert second.has_annotation("ENT_IOB") and not second.ents


@pytest.mark.parametrize("pattern", ["ud_en_ewt/en_ewt-ud-{}.conllu", "ud/en_ewt/{}.conllu.gz"])
def test_ud_is_read_from_each_layout(script: Any, tmp_path: Path, pattern: str) -> None:
    content = gzip.compress(CONLLU.encode()) if pattern.endswith(".gz") else CONLLU.encode()
    folder = tmp_path / "local" / Path(pattern).parent
    _write_splits(folder, [Path(pattern).name.format(split) for split in SPLITS], content)
    script.prepare("ud_en_ewt", tmp_path / "out", str(tmp_path / "local"))
    (doc,) = _docs(tmp_path / "out" / "dev.spacy")
    assert [token.text for token in doc] == ["Don't", "go", "."]
    assert [(token.tag_, token.pos_) for token in doc[1:]] == [("VB", "VERB"), (".", "PUNCT")]


def test_goemotions_is_read_with_all_labels(script: Any, tmp_path: Path) -> None:
    lines = b'{"text": "Thanks, lol!", "labels": ["gratitude", "joy"]}\n{"text": "Ok", "labels": ["neutral"]}\n'
    _write_splits(tmp_path / "goemotions", [f"{split}.jsonl.gz" for split in SPLITS], gzip.compress(lines))
    script.prepare("goemotions", tmp_path / "out", str(tmp_path))
    first, second = _docs(tmp_path / "out" / "train.spacy")
    assert [token.text for token in first] == ["Thanks", ",", "lol", "!"]
    assert first.cats == {"gratitude": 1.0, "joy": 1.0, "neutral": 0.0}
    assert second.cats == {"gratitude": 0.0, "joy": 0.0, "neutral": 1.0}


@pytest.mark.parametrize(
    "line",
    ["{", "1", '{"labels": ["joy"]}', '{"text": "Hm"}', '{"text": "Hm", "labels": "joy"}', '{"text": 1, "labels": []}'],
)
def test_broken_line_of_goemotions_is_named(script: Any, tmp_path: Path, line: str) -> None:
    path = tmp_path / "train.jsonl.gz"
    path.write_bytes(gzip.compress(f'{{"text": "Ok", "labels": ["neutral"]}}\n\n{line}\n'.encode()))
    with pytest.raises(ValueError, match=r"P007.*train\.jsonl\.gz', line 3"):
        script.read_comments(path)


def test_goemotions_that_is_not_gzip_is_named(script: Any, tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl.gz"
    for content in (b"{}", gzip.compress(b"\xff"), gzip.compress(b"text" * 99)[:20]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="P006"):
            script.read_comments(path)


def test_spacy_files_are_taken_as_they_are(script: Any, tmp_path: Path) -> None:
    doc = Doc(Vocab(), words=["Back"], ents=["O"])
    _write_splits(tmp_path / "ner" / "wnut17", [f"{split}.spacy" for split in SPLITS], DocBin(docs=[doc]).to_bytes())
    counts = script.prepare("wnut17", tmp_path / "out", str(tmp_path))
    assert list(counts.values()) == [(1, 1)] * 3


def test_unknown_dataset_lists_the_known_ones(script: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no data set") as error:
        script.prepare("conll2003", tmp_path)
    assert all(name in str(error.value) for name in ("conll2003", "sample", "wnut17", "ud_en_ewt"))


def test_missing_assets_dir_gives_the_resolved_path(script: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist") as error:
        script.prepare("wnut17", tmp_path, "../no-such-folder")
    assert str(PROJECT_DIR.parent / "no-such-folder") in str(error.value)


def test_path_from_the_root_gets_a_hint(
    script: Any, import_script: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkout" / "project").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(import_script("data_files"), "PROJECT_DIR", tmp_path / "checkout" / "project")
    with pytest.raises(FileNotFoundError, match="Did you mean '../../data'"):
        script.prepare("wnut17", tmp_path, "../data")


def test_assets_dir_is_checked_for_the_sample_too(script: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        script.prepare("sample", tmp_path, "no-such-folder")


def test_missing_files_are_named(script: Any, tmp_path: Path) -> None:
    _write_splits(tmp_path / "ner" / "wnut17", ["train.iob2"], COLUMNS.encode())
    with pytest.raises(FileNotFoundError, match="are missing below") as error:
        script.prepare("wnut17", tmp_path / "out", str(tmp_path))
    assert "dev:" in str(error.value) and "train:" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.issue(16)
def test_missing_files_are_downloaded_only_where_the_project_can(script: Any, tmp_path: Path) -> None:
    project = srsly.read_yaml(PROJECT_DIR / "project.yml")
    downloaded = {Path(asset["dest"]).parts[2] for asset in project["assets"]}
    for name, dataset in script.DATASETS.items():
        if dataset.is_ours:
            continue
        assert dataset.is_downloaded == (name in downloaded)
        for folder, code in ((tmp_path, "P002"), (tmp_path / "none", "P001")):
            with pytest.raises(FileNotFoundError, match=code) as error:
                script.prepare(name, tmp_path / "out", str(folder))
            assert ("spacy project assets" in str(error.value)) == dataset.is_downloaded
            assert ("not downloaded" in str(error.value)) != dataset.is_downloaded
            assert "`--vars.assets_dir`" in str(error.value) and "`--assets-dir`" in str(error.value)


@pytest.mark.issue(16)
def test_missing_sample_is_a_file_of_the_repository(
    script: Any, import_script: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_script("data_files"), "PROJECT_DIR", tmp_path)
    with pytest.raises(FileNotFoundError, match="P002.*part of the repository"):
        script.prepare("sample", tmp_path / "out")


def test_command_fails_with_a_message(script: Any, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(script.prepare_cli)
    result = CliRunner().invoke(app, ["conll2003", str(tmp_path)])
    assert result.exit_code == 1
    assert "Known data sets" in result.output
    result = CliRunner().invoke(app, ["sample", str(tmp_path)])
    assert result.exit_code == 0
    assert "train.spacy" in result.output


def test_shared_copies_equal_the_published_counts(script: Any, tmp_path: Path, shared_data: Path) -> None:
    counts = script.prepare("wnut17", tmp_path, str(shared_data))
    assert list(counts.values()) == [(3394, 62730), (1009, 15733), (1287, 23394)]
