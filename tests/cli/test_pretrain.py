"""`elmo pretrain`: a config and a text in, a model out."""

from pathlib import Path

import pytest
import srsly
from thinc.api import Config
from typer.testing import CliRunner

from spacy_elmo import load_bilm
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.cli._app import app
from spacy_elmo.cli.pretrain import find_texts
from spacy_elmo.pretraining.config import PretrainConfig

CONFIG = Path(__file__).parents[2] / "configs" / "pretrain_en_elmo_sm.cfg"
SMALL = [
    *("--pretraining.batch_size", "4", "--pretraining.unroll_steps", "8", "--pretraining.max_tokens", "320"),
    *("--pretraining.eval_every", "5", "--pretraining.softmax", "full", "--pretraining.precision", "float32"),
    *("--bilm.char_cnn.filters", "[[1,4],[2,8]]", "--bilm.cell_width", "16", "--bilm.projection_width", "8"),
]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "corpus" / "text.txt"
    path.parent.mkdir()
    path.write_text("the cat sat on the mat .\nthe mat was under the cat .\n" * 30, encoding="utf8")
    return path


def _run(*arguments):
    return CliRunner().invoke(app, ["pretrain", *(str(argument) for argument in arguments)])


def test_pretrain_writes_a_model_that_knows_its_origin(text, tmp_path):
    output = tmp_path / "out"
    result = _run(CONFIG, output, "--paths.train", text.parent, "--paths.valid", text, *SMALL)
    assert result.exit_code == 0, result.output
    bilm = load_bilm(output / "model-last")
    assert bilm.meta["name"] == "en_elmo_sm" and bilm.meta["training"]["corpus"] == ["text.txt"]
    assert bilm.config.cell_width == 16 and "cat" in bilm.vocabulary
    assert [row["step"] for row in srsly.read_jsonl(output / "log.jsonl")] == [5, 10]
    assert (output / "model-best").is_dir() and "Forward" in result.output


@pytest.mark.parametrize(
    "change, message",
    [
        (["--paths.train", "no/such.txt"], "no text file is there"),
        (["--pretraining.lern_rate", "1"], "lern_rate"),
        (["--bilm.cell_width", "0"], "cell_width"),
        (["--optimizer.name", "Adam"], "optimizer"),
        (["--gpu-id", "99"], "99"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(text, tmp_path, change, message):
    result = _run(CONFIG, tmp_path / "out", "--paths.train", text, "--paths.valid", text, *SMALL, *change)
    assert result.exit_code == 1 and message in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


def test_config_names_every_setting():
    config = Config().from_disk(CONFIG)
    assert BiLMConfig.from_dict(config["bilm"]).to_dict() == {**config["bilm"], "n_words": None}
    assert PretrainConfig.from_dict(config["pretraining"]).to_dict() == config["pretraining"]


def test_texts_are_found_by_file_folder_and_pattern(text):
    (text.parent / "more.txt").write_text("a\n")
    (text.parent / "notes.md").write_text("a\n")
    assert find_texts("train", str(text)) == [text]
    assert [path.name for path in find_texts("train", str(text.parent))] == ["more.txt", "text.txt"]
    assert [path.name for path in find_texts("train", str(text.parent / "t*.txt"))] == ["text.txt"]
