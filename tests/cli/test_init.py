"""The commands to run next, in the header of a config and in the terminal, with the texts of the user."""

import gzip
import shlex

import pytest
from annotated_docs import make_docs
from cli.calls import call
from source_kinds import needs_pipes, open_pipe
from spacy.tokens import DocBin


@pytest.mark.issue(59)
@pytest.mark.parametrize(
    "place, others, expected",
    [
        ("train.spacy", ["dev.spacy", "test.spacy"], ["dev.spacy", "test.spacy"]),
        (
            "se_xx-ud-train.spacy",
            ["se_xx-ud-dev.spacy", "se_xx-ud-test.spacy"],
            ["se_xx-ud-dev.spacy", "se_xx-ud-test.spacy"],
        ),
        ("train", ["valid/a.spacy"], ["valid", None]),
        ("train-*.spacy", ["train-0.spacy", "train-1.spacy", "valid-0.spacy"], ["valid-*.spacy", None]),
        ("my docs.spacy", ["my valid.spacy", "valid.txt"], ["my valid.spacy", None]),
        ("docs.spacy", ["dev-a.spacy", "dev-b.spacy", "latest.spacy"], [None, None]),
    ],
)
def test_next_commands_name_the_files_beside_the_data(place, others, expected, tmp_path):
    (tmp_path / "texts").mkdir()
    for name in [place, *others]:
        path = tmp_path / "texts" / name
        path.parent.mkdir(exist_ok=True)
        if "*" not in name:
            DocBin(docs=make_docs()).to_disk(path / "a.spacy" if not path.suffix and not path.mkdir() else path)
    dev, test = (name and shlex.quote(str(tmp_path / "texts" / name)) for name in expected)
    command = ["init-config", tmp_path / "one.cfg", "--data", tmp_path / "texts" / place, "--component", "ner"]
    lines = call(*command, "--baseline").stderr.splitlines()[-3:]
    header = (tmp_path / "one.cfg").read_text(encoding="utf8").splitlines()
    train = shlex.quote(str(tmp_path / "texts" / place))
    assert lines[0].endswith(f"--paths.train {train} --paths.dev {dev or 'dev.spacy'}") and f"# {lines[0]}" in header
    assert lines[2].endswith(f"--data {test or 'test.spacy'}")


@needs_pipes
@pytest.mark.issue(59)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the process closes what was looked at
def test_next_commands_do_not_name_a_pipe(tmp_path):
    for command, options, name, content in (
        ("init-config", ["--component", "tagger", "--data"], "train.spacy", DocBin(docs=make_docs()).to_bytes()),
        ("init-pretraining", ["--text"], "train.txt", b"A text .\n" * 40),
    ):
        with open_pipe(content) as pipe:
            shown = call(command, tmp_path / f"{command}.cfg", *options, pipe).stderr
        assert f"--paths.train {name}" in shown and pipe not in shown.partition("Next")[2]


@pytest.mark.issue(59)
@pytest.mark.parametrize("command", ["init-pretraining", "init-adaptation"])
def test_next_command_names_the_validation_text(command, tmp_path):
    for name in ("train.txt.gz", "dev.txt", "dev.spacy"):
        content = b"A text .\n" * 40
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    result = call(command, tmp_path / "a.cfg", "--text", tmp_path / "train.txt.gz")
    named = f"--paths.train {tmp_path / 'train.txt.gz'} --paths.valid {tmp_path / 'dev.txt'}"
    assert named in result.stderr.splitlines()[-1]
