"""`--code`: pipelines with components and architectures of the user, in all commands that load a pipeline."""

import pytest
import spacy
from cli.calls import call, make_overrides, read_config, refused
from report_outputs import write_docs
from spacy.cli._util import import_code
from spacy.cli.train import train
from spacy.training import Example

from spacy_elmo.explorer import serving

CODE = """
from spacy.language import Language
from spacy.ml.models import build_hash_embed_cnn_tok2vec
from spacy.tokens import Doc
from spacy.util import registry

if not Doc.has_extension("shouted"):
    Doc.set_extension("shouted", default=None)

@Language.component("{name}")
def shout(doc):
    doc._.shouted = doc.text.upper()
    return doc

@registry.architectures("{name}.Tok2Vec.v1")
def make_tok2vec(width: int):
    return build_hash_embed_cnn_tok2vec(
        width=width, depth=1, embed_size=50, window_size=1, maxout_pieces=2, subword_features=False,
        pretrained_vectors=None,
    )
"""


@pytest.fixture
def code(tmp_path):
    """A pipeline that needs code, which is not registered under the names in its config, and the code that is."""
    (tmp_path / "known.py").write_text(CODE.format(name="known"), encoding="utf8")
    import_code(tmp_path / "known.py")
    nlp = spacy.blank("en")
    own = {"@architectures": "known.Tok2Vec.v1", "width": 8}
    nlp.add_pipe("elmo")
    listener = {"@architectures": "spacy-elmo.ElmoListener.v1"}
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}})
    nlp.add_pipe("known", name="shout")
    model = nlp.get_factory_meta("ner").default_config["model"]
    nlp.add_pipe("ner", config={"model": {**model, "hidden_width": 8, "tok2vec": own}})
    examples = [Example.from_dict(nlp.make_doc("Ada sings"), {"tags": ["N", "V"], "entities": [(0, 3, "PERSON")]})]
    nlp.initialize(lambda: examples)
    nlp.to_disk(tmp_path / "base")
    config = tmp_path / "base" / "config.cfg"
    name = f"of_{tmp_path.name}".replace("-", "_")  # a new one, since registered functions stay for all tests
    config.write_text(config.read_text(encoding="utf8").replace("known", name), encoding="utf8")
    (tmp_path / "mine.py").write_text(CODE.format(name=name), encoding="utf8")
    return tmp_path / "mine.py"


@pytest.mark.issue(48)
def test_every_command_that_loads_a_pipeline_takes_its_code(code, tmp_path, monkeypatch):
    pytest.importorskip("sklearn", reason="probes need scikit-learn")
    monkeypatch.setattr(serving, "serve", lambda explorer, bound: None)
    base, docs = tmp_path / "base", write_docs(tmp_path / "docs.spacy", [["Ada", "hires"]] * 5, [[]] * 5)
    commands = [
        ("init-config", tmp_path / "from.cfg", "--from", base, "--component", "ner"),
        ("layer-weights", base),
        ("report", base),
        ("probe", base, docs, "--attr", "tag", "--control-seeds", 0),
        ("explore", "--pipeline", base, "--port", 0),
    ]
    for command in commands:
        assert "--code" in refused(*command), command
        assert "is not a Python file" in refused(*command, "--code", docs), command
    broken = tmp_path / "broken.py"
    broken.write_text("import nothing_of_this_name", encoding="utf8")
    for command in commands:
        assert "nothing_of_this_name" in refused(*command, "--code", broken), command
    for command in commands:
        call(*command, "--code", code)


@pytest.mark.issue(48)
def test_pipeline_with_code_moves_to_elmo(code, tmp_path):
    path = tmp_path / "from.cfg"
    arguments = ("--from", tmp_path / "base", "--component", "ner", "--baseline", "--code", code)
    commands = call("init-config", path, *arguments).stderr.splitlines()[-3:]
    assert all(command.endswith(f" --code {code}") for command in commands)
    overrides = {**make_overrides(tmp_path), "training.max_steps": 1, "paths.logs": str(tmp_path / "out")}
    train(path, tmp_path / "out", overrides=overrides)
    after = spacy.load(tmp_path / "out" / "model-last")
    assert after.pipe_names == ["elmo", "tagger", "shout", "ner"] and after("Ada sings.")._.shouted == "ADA SINGS."
    assert "ner" in after.get_pipe("elmo").listening_components
    baseline = read_config(tmp_path / "from_baseline.cfg")
    assert baseline["components"]["shout"] == {"source": "${paths.base}"}
    call("report", tmp_path / "out", "--code", code)
    assert f"metrics.json --code {code}" in (tmp_path / "out" / "report.html").read_text(encoding="utf8")
