"""Names and types of settings, checked against dataclasses."""

from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple, Union

import pytest

from spacy_elmo.util import fit_types


@dataclass(frozen=True)
class Inner:
    """A block within a block."""

    cutoffs: Tuple[int, ...] = (1,)
    rate: float = 1.0


@dataclass(frozen=True)
class Outer:
    """One setting of each type."""

    count: int = 1
    limit: Optional[float] = None
    is_on: bool = False
    name: str = ""
    places: Union[str, List[str], None] = None
    pairs: Tuple[Tuple[int, int], ...] = ()
    inner: Inner = Inner()
    rest: Optional[Dict[str, int]] = None


@pytest.mark.parametrize(
    "name, value, wanted",
    [
        ("count", 1e3, 1000),
        ("places", ["a", "b"], ["a", "b"]),
        ("pairs", [[1, 2.0]], ((1, 2),)),
        ("inner", {"cutoffs": [1, 2]}, {"cutoffs": (1, 2)}),
        ("rest", {"x": 1}, {"x": 1}),
    ],
)
def test_values_take_the_type_of_the_field(name, value, wanted):
    settings, problems = fit_types(Outer, {name: value})
    assert settings == {name: wanted} and type(settings[name]) is type(wanted) and not problems


@pytest.mark.parametrize(
    "name, value, problem",
    [
        ("count", 2.5, "count is 2.5, should be an integer"),
        ("count", None, "count is None, should be an integer"),
        ("limit", float("nan"), "limit is nan, should be a number or null"),
        ("is_on", "maybe", "is_on is 'maybe', should be true or false"),
        ("places", ["a", 3], "places is ['a', 3], should be a string or a list of strings or null"),
        ("pairs", [[1]], "pairs is [[1]], should be a list of pairs of integers"),
        ("inner", {"cutoffs": 5}, "inner.cutoffs is 5, should be a list of integers"),
        ("rest", 3, "rest is 3, should be a block of settings or null"),
    ],
)
def test_values_of_other_types_are_named(name, value, problem):
    assert fit_types(Outer, {name: value})[1] == [problem]
