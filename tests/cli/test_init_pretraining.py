"""`elmo init-pretraining`: the recipes of the repository, for a language and a size of the text."""

import gzip
from pathlib import Path

import pytest
import srsly
from cli.calls import call, told
from thinc.api import Config

from spacy_elmo.pretraining.run_config import PRETRAINING, SMALL, check_config, find_configs


@pytest.mark.parametrize("options, source", [([], PRETRAINING), (["--small"], SMALL)])
def test_config_is_that_of_the_repository_for_another_language(options, source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call("init-pretraining", "mine.cfg", *options, "--lang", "de")
    text, recipe = Path("mine.cfg").read_text(encoding="utf8"), (find_configs() / source).read_text(encoding="utf8")
    config, expected = Config().from_str(text), Config().from_str(recipe)
    check_config(config)
    assert config["meta"]["lang"] == config["corpus"]["lang"] == "de"
    assert config["paths"] == expected["paths"] and config["bilm"] == expected["bilm"]
    if source == SMALL:
        assert config["pretraining"] == expected["pretraining"]
    else:  # that of the packaged biLM, but for a text of any size
        assert config["pretraining"]["max_tokens"] == 0 and config["pretraining"]["softmax"]["kind"] == "auto"
    assert "configs/" not in text and "pretrain mine.cfg runs/" in text
    assert text.count("#") == recipe.count("#")


@pytest.mark.issue(40)
def test_config_fits_the_size_of_the_text(tmp_path):
    line = "She sat on the bank of the river and watched the boats .\n"
    large = (line * 200_000).encode()
    for name, content, template in (
        ("a.jsonl", (srsly.json_dumps({"text": line}) + "\n").encode() * 50, SMALL),
        ("b.txt", large, PRETRAINING),
        ("b.txt.gz", gzip.compress(large), PRETRAINING),
    ):
        (tmp_path / name).write_bytes(content)
        shown = told("init-pretraining", tmp_path / "a.cfg", "--text", tmp_path / name, "--force")
        assert Config().from_disk(tmp_path / "a.cfg")["bilm"] == Config().from_disk(find_configs() / template)["bilm"]
        assert f"--paths.train {tmp_path / name}" in shown
