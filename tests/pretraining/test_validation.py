"""Selection of held-out sentences."""

import pytest
from list_shard import ListShard

from spacy_elmo.corpora.shards import Counts
from spacy_elmo.pretraining.validation import read_held_out


@pytest.mark.parametrize("n_found, n_wanted", [(1199, 600), (601, 600), (1200, 600), (7, 3), (5, 1), (5, 5), (4, 9)])
def test_held_out_sentences_are_taken_evenly_from_the_whole_text(n_found, n_wanted):
    counts = Counts()
    found = read_held_out([ListShard("x", [[str(i)] for i in range(n_found)])], n_wanted, counts=counts)
    places = [int(words[0]) for words in found]
    assert len(places) == min(n_found, n_wanted) and counts.n_sentences == n_found
    gaps = [after - before for before, after in zip([*places, n_found], [*places[1:], n_found])][: len(places)]
    assert places[0] == 0 and max(gaps) - min(gaps) <= 1
