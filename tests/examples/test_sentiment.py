"""Text categories by spaCy: the configs of both conditions, and the recipe as a whole."""

import pytest
from examples.writing import write_parts
from spacy.training.initialize import init_nlp

SENTENCES = [("a fine , funny film .", "positive"), ("dull and far too long .", "negative")]
COMMENTS = [("Thanks , I love it !", ["gratitude", "love"]), ("It is on Monday .", ["neutral"])]
FACTORIES = {"sentence-polarity": "textcat", "goemotions": "textcat_multilabel"}
LABELS = {"sentence-polarity": {"positive", "negative"}, "goemotions": {"gratitude", "love", "neutral"}}


@pytest.fixture
def data(tmp_path):
    lines = [{"text": text, "label": label} for text, label in SENTENCES]
    write_parts(tmp_path / "data" / "sentiment" / "sentence-polarity", 4 * lines)
    write_parts(tmp_path / "data" / "goemotions", 4 * [{"text": text, "labels": labels} for text, labels in COMMENTS])
    return tmp_path / "data"


@pytest.fixture
def sentiment(load_recipe):
    return load_recipe("sentiment")


@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.parametrize("with_elmo", [False, True])
def test_network_differs_in_elmo_only(sentiment, tiny_bilm, data, tmp_path, load_recipe, name, with_elmo):
    task = sentiment.TASKS[name]
    texts = load_recipe("_records").read_parts(data / task.folder, task.read)
    n_tokens = sentiment.write_corpus(task, texts, tmp_path)
    config = sentiment.make_config(
        task, with_elmo=with_elmo, corpus=tmp_path, n_tokens=n_tokens, bilm=str(tiny_bilm), seed=3, epochs=1
    )
    nlp = init_nlp(config)
    assert nlp.pipe_names == ["elmo", "textcat"][not with_elmo :]
    assert nlp.get_pipe_meta("textcat").factory == FACTORIES[name]
    assert set(nlp.get_pipe("textcat").labels) == LABELS[name]
    layers = [layer.name for layer in nlp.get_pipe("textcat").model.walk()]
    assert layers.count("elmo-listener") == 2 * with_elmo and layers.count("extract_features") == 1
    assert config.interpolate()["training"]["seed"] == 3


def test_configs_are_equal_without_their_elmo_blocks(sentiment, tmp_path):
    settings = {"corpus": tmp_path, "n_tokens": 5000, "bilm": "en_elmo_sm", "seed": 0, "epochs": 2}
    for task in sentiment.TASKS.values():
        configs = [sentiment.make_config(task, with_elmo=with_elmo, **settings) for with_elmo in (True, False)]
        reads = [config["components"]["textcat"]["model"].pop("tok2vec") for config in configs]
        assert reads[0]["embed"] == reads[1]["embed"]
        # The dropout of the encoder's input, which ElmoTaskEncoder has of its own.
        assert reads[1]["encode"]["*"] == {"dropout": {"@layers": "Dropout.v1"}, "encode": reads[0]["encode"]}
        for config in configs:
            config["nlp"].pop("pipeline")
            config["components"].pop("elmo", None)
            config["initialize"]["components"].pop("elmo", None)
        assert configs[0] == configs[1]


@pytest.mark.issue(16)
def test_category_that_the_training_part_lacks_is_named(sentiment):
    found, wanted = [sentiment.Text("a", ("good",)), sentiment.Text("b", ("bad",))], [sentiment.Text("c", ("odd",))]
    with pytest.raises(SystemExit, match="'test' of 'reviews' has a text of odd, the part 'train' none.*--limit"):
        sentiment.find_labels({"train": found, "dev": found, "test": wanted}, "reviews")


def test_recipe_prints_scores_of_both_conditions(run_recipe, tiny_bilm, data):
    printed = run_recipe("sentiment", "--data", data, "--bilm", tiny_bilm, "--epochs", 2, "--seeds", 1)
    assert printed.count("\naccuracy, sentence-polarity") == printed.count("\nmacro-F1, goemotions") == 2
    assert "sentiment/sentence-polarity: 8 texts, 2 categories" in printed
    assert "goemotions: 8 texts, 3 categories" in printed
