"""What `crf_ner` and `biaffine_parser` share: labels, saving, mistakes in training data and configs."""

import pickle
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Adam

from .tiny import CNN, LISTENER, TAGGED, make_examples

MODELS: Dict[str, Dict[str, Any]] = {
    "crf_ner": {"@architectures": "spacy-elmo.CRFTagger.v1", "tok2vec": CNN},
    "biaffine_parser": {
        **{"@architectures": "spacy-elmo.BiaffineParser.v1", "tok2vec": CNN},
        **{"arc_width": 8, "label_width": 8},
    },
}
LABELS = {"crf_ner": ("THING",), "biaffine_parser": ("ROOT", "dep")}


def make_nlp(factory: str) -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe(factory, config={"model": MODELS[factory]})
    return nlp


@pytest.fixture(scope="module", params=MODELS)
def trained(request: pytest.FixtureRequest) -> Language:
    nlp = make_nlp(request.param)
    nlp.initialize(lambda: make_examples(nlp))
    for _ in range(3):
        nlp.update(make_examples(nlp), sgd=Adam(0.05))
    return nlp


def get_component(nlp: Language) -> Any:
    return nlp.components[0][1]


def annotate(nlp: Language) -> List[Any]:
    docs = [nlp(Doc(nlp.vocab, words=words)) for words, _ in TAGGED]
    return [(token.dep_, token.head.i, token.ent_iob_, token.ent_type_) for doc in docs for token in doc]


def make_example(nlp: Language, words: List[str], label: str = "") -> Example:
    """One label, of an entity and of a dependency; no annotation without it."""
    if not label:
        return Example.from_dict(Doc(nlp.vocab, words=words), {})
    n_words = len(words)
    record = {"words": words, "entities": [f"U-{label}", *["O"] * (n_words - 1)]}
    return Example.from_dict(Doc(nlp.vocab, words=words), {**record, "heads": [0] * n_words, "deps": [label] * n_words})


def test_a_saved_component_finds_the_same(trained: Language, tmp_path: Path) -> None:
    trained.to_disk(tmp_path)
    factory, component = trained.pipe_names[0], get_component(trained)
    sourced = spacy.blank("en")
    sourced.add_pipe(factory, source=trained)
    from_bytes = spacy.blank("en").from_config(trained.config).from_bytes(trained.to_bytes())
    for copied in (spacy.load(tmp_path), from_bytes, pickle.loads(pickle.dumps(trained)), sourced):
        assert annotate(copied) == annotate(trained)
    assert get_component(make_nlp(factory)).from_bytes(component.to_bytes()).labels == LABELS[factory]
    assert not any(node.shims for node in component.model.walk()), "arrays only, nothing that torch would pickle"


def test_labels_can_be_given_and_a_second_initialization_starts_anew(trained: Language) -> None:
    nlp = make_nlp(trained.pipe_names[0])
    component = get_component(nlp)
    assert [component.add_label(label) for label in ("new", "new")] == [1, 0]
    component.initialize(lambda: make_examples(nlp), labels=iter(["THING", "ROOT"]))
    assert component.labels == component.label_data == ("new", "THING", "ROOT")
    nlp = pickle.loads(pickle.dumps(trained))
    nlp.initialize(lambda: make_examples(nlp))
    layer = get_component(nlp).model.get_ref(component.layer)
    assert get_component(nlp).labels == LABELS[trained.pipe_names[0]]
    assert not layer.get_param("transitions" if layer.has_param("transitions") else "arcs").any()


@pytest.mark.parametrize("factory", ["ner", "parser", "tagger"])
def test_the_model_in_another_component_is_an_error(trained: Language, factory: str) -> None:
    nlp, name = spacy.blank("en"), trained.pipe_names[0]
    nlp.add_pipe(factory, config={"model": MODELS[name]})
    with pytest.raises(ValueError, match=f'not a .{name}.*Set factory = "{name}"'):
        nlp.initialize(lambda: make_examples(nlp))


def test_training_on_labels_that_are_not_known_is_told(trained: Language) -> None:
    nlp = spacy.blank("en").from_config(trained.config).from_bytes(trained.to_bytes())
    name, known = trained.pipe_names[0], ", ".join(map(repr, get_component(trained).labels))
    message = f"WL075.*labels that '{name}' does not have: 'NEW'.*It has {known}"
    with pytest.warns(UserWarning, match=message) as caught:
        nlp.update([make_example(nlp, ["Ada", "slept"]), make_example(nlp, ["Rome", "fell"], "NEW")])
        nlp.update([make_example(nlp, ["Rome", "fell"], "NEW")])
    assert len(caught) == 1


def initialize(nlp: Language, labels: Any, *examples: Example) -> None:
    """With labels from the config, as `spacy train` has them."""
    new, name = make_nlp(nlp.pipe_names[0]), nlp.pipe_names[0]
    new.config["initialize"]["components"][name] = {"labels": labels}
    new.initialize(lambda: examples or make_examples(new))


def test_given_labels_that_are_not_in_the_data_are_told(trained: Language) -> None:
    with pytest.warns(UserWarning, match=r"None of the labels given for '\w+' \('thing', 'root'\)"):
        initialize(trained, ["thing", "root"])


def compute_infinite_loss(nlp: Language) -> None:
    component = get_component(nlp)
    scores, _ = component.model.begin_update([eg.predicted for eg in make_examples(nlp)])
    arrays = scores.emissions if hasattr(scores, "emissions") else scores.vectors
    arrays[0][:] = numpy.nan
    component.get_loss(make_examples(nlp), scores)


def add_tagger_model(nlp: Language) -> None:
    tagger = {"@architectures": "spacy.Tagger.v2", "tok2vec": LISTENER}
    nlp.add_pipe(nlp.pipe_names[0], name="other", config={"model": tagger})


@pytest.mark.parametrize(
    "fail, message",
    [
        (
            lambda nlp: initialize(nlp, None, make_example(nlp, ["a", "b"])),
            r"{name}' has no labels: the 1 training examples have no .*\(\w+\.\w+",
        ),
        (lambda nlp: initialize(nlp, []), "has no labels: the given list of labels is empty"),
        # Labels of spaCy's `ner` and `parser` are a mapping of actions.
        (
            lambda nlp: initialize(nlp, {"0": {}, "1": {"PER": -1}}),
            r"{name}'.*actions.*\[initialize.components.{name}.labels\]",
        ),
        (
            lambda nlp: initialize(nlp, ["a"], Example(nlp.make_doc(""), nlp.make_doc(""))),
            "of the 1 training.*'{name}'",
        ),
        (lambda nlp: get_component(nlp).add_label(3), "is 3, should be a text"),
        (lambda nlp: get_component(nlp).add_label("DATE"), "'DATE'.*{known}"),
        (lambda nlp: nlp.rehearse(make_examples(nlp)), r'exclude=\["{name}"\]'),
        (compute_infinite_loss, "nan"),
        (add_tagger_model, "'other'.*{architecture}"),
        (lambda nlp: get_component(make_nlp(nlp.pipe_names[0])).predict([nlp.make_doc("a")]), "EL098.*initialized"),
    ],
)
def test_mistakes_are_told(trained: Language, fail: Callable[[Language], Any], message: str) -> None:
    component = get_component(trained)
    known = {"name": component.name, "known": ", ".join(map(repr, component.labels))}
    with pytest.raises(
        (ValueError, NotImplementedError), match=message.format(architecture=component.architecture, **known)
    ):
        fail(pickle.loads(pickle.dumps(trained)))
