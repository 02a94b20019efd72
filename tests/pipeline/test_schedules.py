"""The slanted triangular schedule has the values of the paper, and ends where it should."""

from itertools import islice

import pytest
from spacy import registry
from thinc.api import Adam

from spacy_elmo.pipeline.fine_tuning import slanted_triangular


def eq_3(t, T, max_rate, cut_frac, ratio):
    """Howard & Ruder (2018), eq. 3, as printed."""
    cut = int(T * cut_frac)
    p = t / cut if t < cut else 1 - (t - cut) / (cut * (1 / cut_frac - 1))
    return max_rate * (1 + p * (ratio - 1)) / ratio


@pytest.mark.parametrize("num_steps, cut_frac, ratio", [(100, 0.1, 32), (40, 0.25, 10.0), (10, 0.5, 2.0)])
def test_slanted_triangular_has_the_values_of_eq_3(num_steps, cut_frac, ratio):
    rates = list(islice(slanted_triangular(0.01, num_steps, cut_frac=cut_frac, ratio=ratio), num_steps))
    assert rates == pytest.approx([eq_3(t, num_steps, 0.01, cut_frac, ratio) for t in range(num_steps)])
    assert max(rates) == rates[int(num_steps * cut_frac)] == pytest.approx(0.01)


@pytest.mark.parametrize("num_steps", [1, 2, 15, 100])  # a cut of 0 and 1.5 steps, too
def test_slanted_triangular_stays_at_the_lowest_rate_after_the_last_step(num_steps):
    with pytest.warns(UserWarning, match=f"WL071.*num_steps is {num_steps},.*lowest rate, 0.03125.*max_steps") as told:
        rates = list(islice(slanted_triangular(1.0, num_steps), 3 * num_steps + 3))
    assert max(rates) == 1.0 and min(rates) == rates[num_steps] == rates[-1] == pytest.approx(1 / 32)
    assert len(told) == 1


@pytest.mark.issue(16)
@pytest.mark.parametrize("t", [0, 7])
def test_a_training_of_num_steps_is_silent(t):
    """`spacy train` makes max_steps + 1 updates, and asks for a rate after the last one."""
    rates = slanted_triangular(1.0, 20, t=t)
    assert len(list(islice(rates, 20 - t + 2))) == 20 - t + 2
    with pytest.warns(UserWarning, match="WL071"):
        next(rates)
    assert next(rates) == 1 / 32


@pytest.mark.issue(16)
@pytest.mark.parametrize("t", [20, 50])
def test_a_resumed_training_after_the_end_of_the_schedule_is_told_at_once(t):
    with pytest.warns(UserWarning, match=f"t is {t}, num_steps is 20,.*lowest rate, 0.03125"):
        rates = slanted_triangular(1.0, 20, t=t)
    assert list(islice(rates, 30)) == [1 / 32] * 30


@pytest.mark.issue(16)
def test_a_constant_rate_has_no_end():
    assert set(islice(slanted_triangular(0.1, 5, ratio=1.0), 20)) == {0.1}
    assert set(islice(slanted_triangular(0.1, 5, ratio=1.0, t=6), 20)) == {0.1}


def test_slanted_triangular_goes_on_where_a_training_stopped():
    first, resumed = slanted_triangular(1.0, 20), slanted_triangular(1.0, 20, t=7)
    assert list(islice(first, 20))[7:] == list(islice(resumed, 13))


def test_optimizer_takes_it_from_a_config():
    learn_rate = {"@schedules": "spacy-elmo.slanted_triangular.v1", "max_rate": 1.0, "num_steps": 20}
    optimizer = registry.resolve({"optimizer": {"@optimizers": "Adam.v1", "learn_rate": learn_rate}})["optimizer"]
    assert isinstance(optimizer, Adam(0.1).__class__)
    rates = []
    for _ in range(20):
        rates.append(optimizer.learn_rate)
        optimizer.step_schedules()
    assert rates == pytest.approx([eq_3(t, 20, 1.0, 0.1, 32) for t in range(20)])


@pytest.mark.parametrize(
    "settings, problem",
    [
        ({"max_rate": -1.0}, "max_rate.*-1.0"),
        ({"num_steps": 0}, "num_steps.*0"),
        ({"cut_frac": 1.0}, "cut_frac.*1.0"),
        ({"ratio": 0.5}, "ratio.*0.5"),
        ({"t": -1}, "t.*-1"),
        ({"num_steps": "10"}, "num_steps.*'10'"),
    ],
)
def test_settings_that_make_no_sense_are_errors_before_the_first_rate(settings, problem):
    with pytest.raises(ValueError, match=f"(?s){problem}"):
        slanted_triangular(**{"max_rate": 1.0, "num_steps": 10, **settings})
