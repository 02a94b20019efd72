"""Outputs are never among the files that a command reads, whatever their names, and links to them stay."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict

import pytest
import spacy
from cli.calls import SMALL_BILM, SMALL_RUN, as_options, call, refused, told
from compat import tiny
from export.running import make_bilm
from spacy.tokens import DocBin

from spacy_elmo import save_bilm
from spacy_elmo.compat.allennlp import ElmoEmbedder
from spacy_elmo.compat.bilm import dump_bilm_embeddings
from spacy_elmo.files import check_not_read
from spacy_elmo.util import has_matplotlib

TEXT = "the cat sat on the mat .\n" * 4
CONFIG = Path(__file__).parents[1] / "configs" / "pretrain_en_elmo_sm.cfg"
pytestmark = pytest.mark.issue(59)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: two texts, a biLM in two formats."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    for name in ("a.txt", "b.txt"):
        Path("in", name).write_text(TEXT)
    save_bilm(make_bilm(), "bilm")
    save_bilm(make_bilm(), "tf", format="bilm-tf")
    return tmp_path


def contents(folder: Path) -> Dict[str, bytes]:
    """Of all files, by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


NAMES = ["in/a.txt", "in/../in/a.txt", "linked.txt", "hard.txt", "folder/a.txt"]


@pytest.mark.parametrize("output", NAMES)
@pytest.mark.parametrize("source", [*NAMES, "in", "folder", "in/*.txt", "in/**"])
def test_a_text_is_not_replaced_under_any_name(source: str, output: str, place: Path) -> None:
    Path("linked.txt").symlink_to(Path("in", "a.txt"))
    Path("folder").symlink_to("in")
    os.link("in/a.txt", "hard.txt")
    if output == "hard.txt" and source in ("in", "folder", "in/*.txt", "in/**"):
        source = "in/a.txt"
    before = contents(place)
    for options in ([], ["--force"]):
        shown = refused("vocab", source, output, *options)
        assert "is read" in shown and output in shown and "--force" not in shown
    assert contents(place) == before
    assert Path("linked.txt").is_symlink()


def test_stdin_from_a_file_is_not_replaced(place: Path) -> None:
    command = [sys.executable, "-m", "spacy_elmo", "vocab", "-", "in/a.txt", "--force"]
    with open("in/a.txt", "rb") as stdin:
        run = subprocess.run(command, stdin=stdin, capture_output=True, text=True)
    assert run.returncode == 1 and "is read" in " ".join(run.stderr.split()) and Path("in/a.txt").read_text() == TEXT


# Commands whose output is something that they read; matplotlib and pyarrow are optional.
COMMANDS = [
    "vocab in in/b.txt",
    "vocab in/a.txt in/b.txt in/b.txt",
    "embed bilm in/a.parquet in/a.parquet",
    "embed bilm in in/a.parquet",
    "embed bilm in/*.parquet in/a.parquet",
    "embed bilm in/docs.spacy in/docs.spacy",
    "embed bilm in in/docs.spacy",
    "embed tf in/a.txt tf/weights.hdf5",
    "embed tf/weights.hdf5 in/a.txt tf/weights.hdf5",
    "embed tf/weights.hdf5 in/a.txt linked.hdf5 --options tf/options.json",
    "embed tf in/a.txt words.hdf5 --vocab tf/vocab.txt --token-embeddings words.hdf5",
    "embed bilm out/part-00000-00000.parquet out",
    "convert bilm bilm",
    "convert tf tf --to bilm-tf",
    "convert tf/weights.hdf5 tf",
    "convert bilm tf --to bilm-tf --vocab tf/vocab.txt",
    "convert linked-bilm bilm",
    "convert bilm linked-bilm",
    "package xx_elmo_a-1.0.0/xx_elmo_a/xx_elmo_a-1.0.0 . --name a --lang xx --build none",
    "init-config code.py --component ner --code code.py",
    "init-config in/docs.spacy --data in/docs.spacy --component ner",
    "init-config bilm/config.json --component ner --bilm bilm",
    "init-config pipeline/meta.json --component ner --from pipeline",
    "surprisal bilm hello --html bilm/config.json",
    "probe bilm in/docs.spacy --attr pos --output in/docs.spacy",
    "probe bilm in/docs.spacy --attr pos --output bilm/config.json",
    "layer-weights pipeline --picture log.png --log log.png",
    "senses index bank --html index/tokens.sqlite",
    "report pipeline --html pipeline/config.cfg",
    "report pipeline --data in/docs.spacy --html in/docs.spacy",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_replaces_what_it_reads(command: str, place: Path) -> None:
    if "png" in command and not has_matplotlib:
        pytest.skip("needs matplotlib")
    nlp = spacy.blank("en")
    if "docs.spacy" in command:
        DocBin(docs=[nlp("The cat sat.")]).to_disk("in/docs.spacy")
    if "parquet" in command:
        pyarrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
        parquet.write_table(pyarrow.table({"text": ["the cat"]}), "in/a.parquet")
    if "part-" in command:
        call("embed", "bilm", "in/a.txt", "out")
    if "index" in command:
        call("index", "in/a.txt", "index", "--bilm", "bilm")
    if "package" in command:
        call(*"package bilm . --name a --lang xx --build none".split())
    nlp.add_pipe("sentencizer")
    nlp.to_disk("pipeline")
    Path("code.py").write_text("")
    Path("log.png").write_text("")
    Path("linked.hdf5").symlink_to("tf/weights.hdf5")
    shutil.copy("tf/weights.hdf5", "words.hdf5")
    Path("linked-bilm").symlink_to("bilm")
    before = contents(place)
    shown = refused(*command.split(), "--force")
    assert "is read" in shown and "Choose another" in shown, shown
    assert contents(place) == before


RUN = as_options({**SMALL_RUN, **SMALL_BILM, "paths.valid": "in/b.txt"})


@pytest.mark.parametrize(
    "name, path", [("init", "model-best"), ("vocab", "model-last/vocab.txt"), ("train", "log.jsonl")]
)
def test_pretraining_does_not_remove_what_it_starts_from(name: str, path: str, place: Path) -> None:
    Path("run/model-last").mkdir(parents=True)
    shutil.copytree("bilm", "run/model-best")
    shutil.copy("bilm/vocab.txt" if Path("bilm/vocab.txt").exists() else "in/a.txt", "run/model-last/vocab.txt")
    Path("run/log.jsonl").write_text('{"text": "the cat"}\n')
    before = contents(place)
    paths = {"train": "in/a.txt", name: f"run/{path}"}
    options = [text for key, value in paths.items() for text in (f"--paths.{key}", value)]
    assert "is read" in told("pretrain", CONFIG, "run", *options, *RUN, "--force", code=1)
    assert contents(place) == before


def test_files_beside_those_that_are_read_are_written(place: Path) -> None:
    """Nested folders, new files, pages and pictures in a folder that is read are no conflict."""
    for _ in range(2):
        call("convert", "bilm", "bilm/tf", "--to", "bilm-tf", "--force")
        told("vocab", "in", "in/words.txt", "--force")
        Path("bilm/page.html").write_text("an earlier page")
        check_not_read(place / "bilm" / "page.html", ["bilm"])
        call("embed", "bilm", "in", "in/vectors.npz", "--force")
    call("embed", "bilm", "in", "in/more", "--to", "docbin")
    call("embed", "bilm", "in", "in/again.spacy")
    call("embed", "bilm", "in", "in/again.spacy", "--force")


def test_functions_do_not_replace_what_they_read(place: Path) -> None:
    options, weights, words, _ = tiny.save_files(tiny.make_bilm(), place / "tiny")
    for output in (words, weights, options, place / "in" / "a.txt"):
        with pytest.raises(ValueError, match="is read"):
            dump_bilm_embeddings(words, place / "in" / "a.txt", options, weights, output)
    embedder = ElmoEmbedder(options, weights)
    for output in (place / "in" / "a.txt", weights):
        with pytest.raises(ValueError, match="is read"), open("in/a.txt", encoding="utf8") as lines:
            embedder.embed_file(lines, output)
    check_not_read(place / "new", [place / "in"])
    assert Path("in/a.txt").read_text() == TEXT


@pytest.mark.parametrize(
    "command", ["vocab in/a.txt out.txt", "embed bilm in/a.txt out.npz", "init-config out.cfg --component ner"]
)
def test_a_linked_output_stays_a_link(command: str, place: Path) -> None:
    (name,) = (word for word in command.split() if word.startswith("out."))
    Path("disk").mkdir()
    Path(name).symlink_to(Path("disk", name))
    for force in ([], ["--force"]):  # first a link to nothing, then to a file
        call(*command.split(), *force)
        assert Path(name).is_symlink() and Path("disk", name).is_file() and Path("disk", name).stat().st_size
        assert sorted(path.name for path in Path("disk").iterdir()) == [name]
        Path("disk", name).write_text("before")
    call(*command.split(), "--force")
    assert Path("disk", name).read_bytes() != b"before" and Path(name).is_symlink()
