"""Lanes without padding, and windows over long runs."""

import numpy as np
import pytest

from spacy_elmo.text.lanes import plan_lanes, split_windows


@pytest.mark.parametrize("lengths", [[1], [5, 1, 3], [0, 4, 0, 4], list(range(40)), [100] + [3] * 200])
@pytest.mark.parametrize("max_lanes", [1, 4, 128])
def test_every_token_has_a_slot_of_its_own(lengths, max_lanes):
    plan = plan_lanes(lengths, max_lanes)
    for backward in (False, True):
        slots = plan.slots(backward=backward)
        assert len(slots) == len(set(slots.tolist())) == sum(lengths)
        steps, lanes = np.divmod(slots, max(1, plan.n_lanes))
        assert (lanes < plan.n_active[steps]).all()
    assert plan.n_active.sum() == sum(lengths)  # nothing else is computed
    assert plan.n_lanes <= max_lanes


@pytest.mark.parametrize("n_tokens", [0, 1, 7, 10, 11, 19, 20, 21, 100, 1003])
@pytest.mark.parametrize("overlap", [0, 1, 4])
def test_kept_slices_cover_the_run_once(n_tokens, overlap):
    windows = split_windows(n_tokens, 10, overlap)
    kept = [i for window in windows for i in range(window.keep_start, window.keep_end)]
    assert kept == list(range(n_tokens))
    for window in windows:
        assert window.start <= window.keep_start and window.keep_end <= window.end
        assert window.end - window.start <= 10
    assert all(b.start <= a.end - overlap for a, b in zip(windows, windows[1:]))


def test_each_token_comes_from_the_window_where_it_is_most_central():
    windows = split_windows(1000, 100, 30)

    def distance(window, i):
        left = i - window.start if window.start else 10**6
        right = window.end - 1 - i if window.end < 1000 else 10**6
        return min(left, right)

    for window in windows:
        for i in range(window.keep_start, window.keep_end):
            best = max(distance(other, i) for other in windows if other.start <= i < other.end)
            assert distance(window, i) >= best - 1  # the middle of an overlap is a tie


@pytest.mark.parametrize("max_tokens, overlap", [(0, 0), (10, 5), (10, -1)])
def test_windows_that_do_not_get_on_are_an_error(max_tokens, overlap):
    with pytest.raises(ValueError, match="does not advance"):
        split_windows(20, max_tokens, overlap)
