"""Calls of commands as in a shell, with what they should print."""

import json

from annotated_docs import make_docs
from spacy.tokens import DocBin
from thinc.api import Config
from typer.testing import CliRunner

from spacy_elmo.cli._app import app


def call(*arguments, code=0, **settings):
    """RETURNS (Result): Of `elmo COMMAND ...`, whose exit code is checked."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], **settings)
    assert result.exit_code == code and isinstance(result.exception, (SystemExit, type(None))), (
        arguments,
        result.output,
        result.exception,
    )
    return result


def call_json(*arguments, code=0):
    """RETURNS (Any): What a command prints with --json."""
    return json.loads(call(*arguments, "--json", code=code).stdout)


def told(*arguments, code=0, **settings):
    """RETURNS (str): All that a command prints, in one line."""
    return " ".join(call(*arguments, code=code, **settings).output.split())


def refused(*arguments, code=1, **settings):
    """RETURNS (str): The error of a call, in one line; nothing else is printed."""
    result = call(*arguments, code=code, **settings)
    assert not result.stdout
    return " ".join(result.stderr.split())


def follow(command, folder):
    """Call a printed command of `init-config --data train.spacy`, given as a list of words, in a folder."""
    DocBin(docs=make_docs(), store_user_data=True).to_disk(folder / "train.spacy")
    options = [folder / word if word == "train.spacy" else word for word in command[6:]]
    assert folder / "train.spacy" in options
    call(command[4], folder / "next.cfg", *options)


SMALL_RUN = {
    "pretraining.batch_size": 4,
    "pretraining.unroll_steps": 8,
    "pretraining.max_tokens": 320,
    "pretraining.eval_every": 5,
    "pretraining.softmax.kind": "full",
    "pretraining.precision": "float32",
}
SMALL_BILM = {"bilm.char_cnn.filters": "[[1,4],[2,8]]", "bilm.cell_width": 16, "bilm.projection_width": 8}


def as_options(settings):
    """RETURNS (List[str]): Settings as options of `elmo pretrain`."""
    return [text for name, value in settings.items() for text in (f"--{name}", str(value))]


def read_config(path):
    """RETURNS (Config): A config as it is written."""
    return Config().from_disk(path, interpolate=False)


def shorten(path, n_updates):
    """RETURNS (Dict[str, int]): Overrides that end the training of a config after so many updates."""
    rate = read_config(path)["training"]["optimizer"]["learn_rate"]
    has_length = isinstance(rate, dict) and "num_steps" in rate
    names = ["training.max_steps", *(["training.optimizer.learn_rate.num_steps"] if has_length else [])]
    return dict.fromkeys(names, n_updates)


def make_overrides(folder):
    """RETURNS (Dict[str, str]): What a user must supply for `spacy train`: data."""
    DocBin(docs=make_docs(), store_user_data=True).to_disk(folder / "train.spacy")
    return {f"paths.{part}": str(folder / "train.spacy") for part in ("train", "dev")}
