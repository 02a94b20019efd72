"""The comments of configs that `init-config` writes are those of the packaged configs."""

from typing import Any, Dict, Iterator, Tuple

import pytest
from thinc.api import Config

from spacy_elmo.files import find_configs
from spacy_elmo.pipeline.starter_config import make_pipeline_config, read_comments, write_config

OURS = ("elmo", "crf_ner", "biaffine_parser", "components.elmo.mix", "paths", "training", "nlp")
CONFIGS: Dict[str, Dict[str, Any]] = {
    "ner,parser": {"output": "runs/a", "writes_logs": True},
    "ner": {"fine_tune": True, "optimize": "accuracy"},
    "crf_ner,textcat": {"placement": "both"},
    "biaffine_parser,textcat_multilabel": {"has_ud_labels": True, "lang": "fr", "bilm": "en_elmo_sm"},
    "textcat": {"is_baseline": True},
}


def iter_settings(text: str) -> Iterator[Tuple[str, str, str]]:
    """What declares a setting, its name, and its comment, in the first block of each kind."""
    config, seen, owner, is_first, comment = Config().from_str(text, interpolate=False), set(), "", False, ""
    for line in text.splitlines():
        if line.startswith("["):
            block = config
            for key in line.strip("[]").split("."):
                block = block[key]
            names = [value for key, value in block.items() if key.startswith("@")]
            owner = str((names or [block.get("factory", line.strip("[]"))])[0])
            is_first = owner not in seen
            seen.add(owner)
        elif " = " in line and not line.startswith("#") and is_first:
            yield owner, line.partition(" = ")[0], comment
        comment = f"{comment} {line[2:]}".strip() if line.startswith("# ") else ""


@pytest.mark.parametrize("pipeline", CONFIGS)
def test_every_setting_of_ours_has_the_comment_of_a_packaged_config(pipeline: str) -> None:
    text = make_pipeline_config(pipeline, **CONFIGS[pipeline])
    known = read_comments()
    n_ours = 0
    for owner, name, comment in iter_settings(text):
        assert comment == known.get((owner, name), ""), (owner, name)
        if owner in OURS or owner.startswith("spacy-elmo."):
            assert comment, (owner, name)
            n_ours += 1
    assert n_ours > 20


def test_a_comment_stands_once_above_the_first_block_of_a_kind() -> None:
    text = make_pipeline_config("ner,tagger")
    assert text.count("# Whether to train w") == 1 and text.count('"spacy-elmo.ElmoListener.v1"') == 2
    config = Config().from_str(text, interpolate=False)
    assert Config().from_str(write_config(config), interpolate=False) == config


def test_all_packaged_pipelines_have_been_read() -> None:
    comments = read_comments()
    for path in find_configs().glob("elmo_*.cfg"):
        for owner, name, _ in iter_settings(path.read_text(encoding="utf8")):
            assert comments[owner, name], (path.name, owner, name)
