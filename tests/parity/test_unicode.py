"""The promise of docs/exactness.md, on random Unicode texts: vectors in a batch are those of a single sequence."""

import numpy as np
from unicode_texts import random_texts

from spacy_elmo import load_bilm


def largest_differences(bilm, n_texts):
    """RETURNS (NDArray): Per layer, over the texts in a large and in a small batch."""
    texts = random_texts(n_texts, seed=16)
    single = np.concatenate([bilm.embed([text])[0] for text in texts], axis=1)
    batches = [np.concatenate(bilm.embed(texts, batch_tokens=size), axis=1) for size in (64, 2**20)]
    assert np.ptp(single) > 1
    return np.max([np.abs(batch - single).max(axis=(1, 2)) for batch in batches], axis=0)


def test_packaged_bilm_is_within_1e5():
    differences = largest_differences(load_bilm("en_elmo_sm"), 40)
    assert differences[0] <= 1e-6 and differences.max() <= 1e-5


def test_four_layers_amplify_rounding(shared_data):
    differences = largest_differences(load_bilm(shared_data / "elmo-groundtruth" / "tiny-odd-4layer"), 60)
    assert differences[0] <= 1e-6 and differences.max() <= 2e-5


def test_four_layers_with_carried_state(shared_data):
    """Runs of three words share a state: the batch sizes decide where a slice ends, and nothing else."""
    bilm = load_bilm(shared_data / "elmo-groundtruth" / "tiny-odd-4layer")
    texts = random_texts(40, seed=16)
    runs = [text[i : i + 3] for text in texts for i in range(0, len(text), 3)]
    n_runs = [-(-len(text) // 3) for text in texts]
    found = [
        bilm.encode(runs, state="carry", batch_tokens=size, group_lengths=n_runs).numpy() for size in (3, 64, 2**20)
    ]
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, rtol=0, atol=1e-4)
    assert np.abs(found[0] - bilm.encode(runs).numpy()).max() > 0.01  # the state is carried
