"""One check of settings for configs, files and arguments: problems as data, with the names that a file has."""

import pickle
from typing import Any, Dict

import pytest

from spacy_elmo import BiLMConfig
from spacy_elmo.bilm.config import SettingsReader
from spacy_elmo.nn import BiLSTM
from spacy_elmo.pipeline.task_layers import BiLSTMEncoder
from spacy_elmo.settings import Count, Problem, SettingsError, check_record, list_problems, read_block

WORDS = {"n_words": 5, "projection_width": 8}


@pytest.mark.parametrize(
    "record, problems",
    [
        ({**WORDS, "n_layers": 0}, [Problem(("n_layers",), "is 0, should be at least 1")]),
        ({**WORDS, "cell": 3}, [Problem(("cell",), "is not a setting", is_unknown=True)]),
        ({"char_cnn": {"filters": [[1]]}}, [Problem(("char_cnn", "filters", 0, 1), "is missing")]),
        (
            {**WORDS, "cell_width": 4},
            [Problem(("projection_width",), "is 8, should be 1 to {} (4)", ("cell_width",))],
        ),
        (
            {**WORDS, "has_skip": "yes", "cell_clip": 0},
            [
                Problem(("cell_clip",), "is 0, should be greater than 0"),
                Problem(("has_skip",), "is 'yes', should be true or false"),
            ],
        ),
        ([], [Problem((), "is [], should be a block of settings")]),
    ],
)
def test_problems_are_data(record: Any, problems: Any) -> None:
    assert check_record(BiLMConfig, record) == (None, problems)


def test_a_record_without_problems_is_the_block() -> None:
    assert check_record(BiLMConfig, WORDS) == (BiLMConfig(**WORDS), [])
    assert check_record(Count, 1e3) == (1000, []) and check_record(Count, 0)[0] is None


def test_problems_have_the_names_of_the_file() -> None:
    problem = Problem(("char_cnn", "filters", 3, 1), "is -1, should be at least 1 and below {}", ("cell_width",))
    assert problem.describe() == "char_cnn.filters[3][1] is -1, should be at least 1 and below cell_width"
    names = {"filters": "cnn.sizes", "cell_width": "lstm.dim"}
    assert problem.describe(names) == "cnn.sizes[3][1] is -1, should be at least 1 and below lstm.dim"
    options: Dict[str, Any] = {"lstm": {"dim": 4, "out": 8, "deep": {"x": "{y}"}}}
    reader = SettingsReader(options)
    record = reader.read({"cell_width": ("lstm.dim", ...), "projection_width": ("lstm.out", ...)})
    assert reader.build({**record, "n_words": 3}) is None
    assert reader.describe() == ["lstm.out is 8, should be 1 to lstm.dim (4)"]
    assert reader.take("lstm.deep", Count) is None and reader.take("lstm.layers", Count, 2) == 2
    assert reader.take("lstm.layers", Count) is None
    assert reader.describe()[1:] == ["lstm.deep is {'x': '{y}'}, should be a valid integer", "lstm.layers is missing"]


def test_arguments_are_checked_like_settings() -> None:
    for call, name in ((BiLSTMEncoder, "depth"), (BiLSTM, "width")):
        with pytest.raises(ValueError, match=f"EL060.*The BiLSTM.* has invalid settings: {name} is 2.5, should be a "):
            call(4, 2.5)


def test_errors_of_settings_keep_their_problems() -> None:
    problems = (Problem(("a",), "is 1, should be 2"), Problem((), "something is missing"))
    copied = pickle.loads(pickle.dumps(SettingsError(*problems)))
    assert (
        copied.args == problems
        and str(copied) == list_problems(problems) == "a is 1, should be 2; something is missing"
    )
    with pytest.raises(ValueError, match="EL001.*Unknown setting in biLM config: char_cnn.wide. Known settings: embed"):
        read_block(BiLMConfig, {"char_cnn": {"wide": 3}}, "biLM config")
    with pytest.raises(ValueError, match="The biLM config is invalid: n_layers is 0, should be at least 1. Correct"):
        read_block(BiLMConfig, {**WORDS, "n_layers": 0}, "biLM config")
