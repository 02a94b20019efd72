"""Learning rates at chosen steps of a run."""

import pytest

from spacy_elmo.pretraining.config import SCHEDULES, ScheduleConfig
from spacy_elmo.pretraining.schedule import rate_factor

MAX_TOKENS = 1000


def _factors(name, **settings):
    """Factor of 100 updates of 10 tokens each."""
    config = ScheduleConfig(name=name, **settings)
    return [rate_factor(config, step=k, n_tokens=10 * k, max_tokens=MAX_TOKENS) for k in range(100)]


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("warmup_steps", [0, 1, 10])
def test_factor_stays_between_0_and_1(name, warmup_steps):
    assert all(0.0 < factor <= 1.0 for factor in _factors(name, warmup_steps=warmup_steps))


@pytest.mark.parametrize("name", ["constant", "linear", "cosine", "inverse_sqrt"])
def test_factor_rises_over_the_warm_up(name):
    factors = _factors(name, warmup_steps=10)
    assert factors[0] == pytest.approx(0.1)
    assert factors[:10] == sorted(factors[:10])


@pytest.mark.parametrize(
    "name, at_half, at_end",
    [("constant", 1.0, 1.0), ("linear", 0.5, 0.01), ("cosine", 0.5, 0.000247), ("inverse_sqrt", (1 / 51) ** 0.5, 0.1)],
)
def test_factor_falls_as_named(name, at_half, at_end):
    factors = _factors(name, warmup_steps=0)
    assert factors[50] == pytest.approx(at_half, rel=1e-2) and factors[99] == pytest.approx(at_end, rel=1e-2)


def test_slanted_triangle_follows_howard_and_ruder():
    factors = _factors("slanted_triangular", cut_frac=0.1, ratio=32.0)
    assert factors[0] == pytest.approx(1 / 32)
    assert factors[10] == max(factors) == 1.0
    assert factors[5] == pytest.approx((1 + 0.5 * 31) / 32)
    assert factors[55] == pytest.approx((1 + 0.5 * 31) / 32)  # half way down
    assert factors[99] == pytest.approx((1 + 31 / 90) / 32)


def test_no_rate_is_below_zero_after_the_last_token():
    for name in SCHEDULES:
        factor = rate_factor(ScheduleConfig(name=name), step=10**4, n_tokens=2 * MAX_TOKENS, max_tokens=MAX_TOKENS)
        assert 0.0 <= factor <= 1.0
