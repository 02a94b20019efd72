"""spaCy's own commands on a pipeline with ELMo: fill-config, train, evaluate, benchmark, apply, package."""

import json
import subprocess
import sys

import numpy
import pytest
import spacy
from spacy.cli.init_config import fill_config
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from thinc.api import Config

from .tiny import LISTENER, TAGGED, loader_block

pytestmark = pytest.mark.slow
FROZEN = {"frozen_components": ["elmo"], "annotating_components": ["elmo"]}


# Several commands in one process, which imports spaCy and torch once.
SEVERAL = """
import json, sys, typer.main, spacy_elmo.pipeline.component, spacy.cli
for arguments in json.loads(sys.argv[1]):
    typer.main.get_command(spacy.cli.app)(args=arguments, prog_name="python -m spacy", standalone_mode=False)
    print("done:", arguments[0])
"""


def run(*commands):
    listed = json.dumps([[str(argument) for argument in command] for command in commands])
    result = subprocess.run(
        [sys.executable, "-c", SEVERAL, listed], capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("done:") == len(commands)


def write_corpus(path):
    nlp, docs = spacy.blank("en"), DocBin()
    for words, tags in TAGGED * 4:
        eg = Example.from_dict(Doc(nlp.vocab, words=words), {"words": words, "tags": tags})
        docs.add(eg.reference)
    docs.to_disk(path)


def write_config(path, corpus, elmo=None):
    config = {
        "paths": {"train": str(corpus), "dev": str(corpus)},
        "nlp": {"lang": "en", "pipeline": ["elmo", "tagger"]},
        "components": {
            "elmo": {"factory": "elmo", **(elmo or {})},
            "tagger": {"factory": "tagger", "model": {"@architectures": "spacy.Tagger.v2", "tok2vec": LISTENER}},
        },
        "corpora": {name: {"@readers": "spacy.Corpus.v1", "path": f"${{paths.{name}}}"} for name in ("train", "dev")},
        "training": {"max_steps": 4, "eval_frequency": 2},
        "initialize": {"components": {"elmo": loader_block()}},
    }
    Config(config).to_disk(path)


def fill(tmp_path, elmo=None):
    write_corpus(tmp_path / "train.spacy")
    write_config(tmp_path / "base.cfg", tmp_path / "train.spacy", elmo)
    fill_config(tmp_path / "config.cfg", tmp_path / "base.cfg", silent=True)
    config = Config().from_disk(tmp_path / "config.cfg")
    assert config["components"]["elmo"]["model"]["max_tokens"] == 512
    assert config["components"]["tagger"]["model"]["tok2vec"]["learn_gamma"] is True
    assert spacy.util.load_model_from_config(config, auto_fill=True).config == config
    return config


def check_trained(folder):
    doc = spacy.load(folder / "model-best")("She sat on the bank")
    assert doc._.elmo.any()
    last = spacy.load(folder / "model-last")
    assert abs(last.get_pipe("elmo").listeners[0].mix.get_param("w")).max() > 0
    return doc


def test_train_evaluate_apply_package(tmp_path):
    fill(tmp_path)
    (tmp_path / "texts.txt").write_text("She sat on the bank\nRivers flow\n")
    best, train_path = tmp_path / "out" / "model-best", tmp_path / "train.spacy"
    run(
        ("init", "fill-config", tmp_path / "base.cfg", tmp_path / "config.cfg"),
        ("debug", "config", tmp_path / "config.cfg"),
        ("train", tmp_path / "config.cfg", "--output", tmp_path / "out"),
        ("evaluate", best, train_path, "--output", tmp_path / "scores.json"),
        ("benchmark", "accuracy", best, train_path),
        ("benchmark", "speed", best, train_path, "--batches", "30", "--warmup", "1"),
        ("apply", best, tmp_path / "texts.txt", tmp_path / "applied.spacy"),
        ("package", best, tmp_path, "--name", "elmo_test", "--build", "none"),
    )
    assert (tmp_path / "scores.json").is_file() and (tmp_path / "applied.spacy").is_file()
    (packaged,) = tmp_path.glob("en_elmo_test-*/en_elmo_test/en_elmo_test-*")
    doc = check_trained(tmp_path / "out")
    numpy.testing.assert_allclose(spacy.load(packaged)("She sat on the bank")._.elmo, doc._.elmo, atol=1e-6)


@pytest.mark.parametrize("is_sourced", [True, False], ids=["frozen", "trained"])
def test_train_a_frozen_component_that_is_sourced_or_a_trained_one(is_sourced, tmp_path):
    config = fill(tmp_path, None if is_sourced else {"model": {"frozen": False}})
    if is_sourced:
        # A frozen component is never initialized, so it comes from a pipeline that was.
        nlp = spacy.util.load_model_from_config(config, auto_fill=True)
        nlp.remove_pipe("tagger")
        nlp.initialize()
        nlp.to_disk(tmp_path / "source")
        config["components"]["elmo"] = {"source": str(tmp_path / "source")}
        config["initialize"]["components"] = {}
        config["training"].update(FROZEN)
        config.to_disk(tmp_path / "config.cfg")
    train(tmp_path / "config.cfg", tmp_path / "out")
    check_trained(tmp_path / "out")
