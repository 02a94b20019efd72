"""`elmo init-adaptation`: the recipe of the repository, for a biLM and its language."""

import pytest
from cli.calls import call, told
from thinc.api import Config

from spacy_elmo.pretraining.run_config import ADAPTATION, check_config, find_configs


def test_config_is_that_of_the_repository_for_another_bilm(bilm_path, tmp_path):
    path = tmp_path / "mine.cfg"
    call("init-adaptation", path, "--bilm", bilm_path, "--lang", "de")
    text, recipe = path.read_text(encoding="utf8"), (find_configs() / ADAPTATION).read_text(encoding="utf8")
    config, expected = Config().from_str(text), Config().from_str(recipe)
    check_config(config)
    assert config["meta"]["lang"] == config["corpus"]["lang"] == "de"
    assert config["paths"] == {**expected["paths"], "init": str(bilm_path)}
    assert config["pretraining"] == expected["pretraining"] and "bilm" not in config
    assert "configs/" not in text and f"pretrain {path} runs/" in text
    assert text.count("#") == recipe.count("#")


@pytest.mark.issue(16)
@pytest.mark.parametrize("options, more", [(["--lang", "de"], " --paths.init BILM"), ([], "")])
@pytest.mark.filterwarnings("default:The package contains no biLM")
def test_next_command_has_what_the_config_leaves_open(options, more, tmp_path):
    shown = told("init-adaptation", tmp_path / "a.cfg", *options).removesuffix("\x1b[0m")
    assert shown.endswith(f"valid.txt{more}")
    assert (tmp_path / "a.cfg").read_text().partition("\n\n")[0].endswith(f"valid.txt{more}")


@pytest.mark.issue(40)
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("lang, names", [("pt", "pt, pt-wikipedia, manylangs-pt"), ("de", "manylangs-de"), ("is", "")])
@pytest.mark.parametrize("command", [["init-config", "--component=ner"], ["init-adaptation"]], ids=str)
def test_warning_for_another_language_names_published_bilms(command, lang, names, tmp_path):
    shown = told(*command, tmp_path / "a.cfg", "--lang", lang)
    assert f": {names} (`python -m spacy elmo download" in shown if names else "has none for 'is'" in shown
