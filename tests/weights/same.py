"""Comparison of two biLMs, bit for bit or by their vectors."""

from typing import Sequence

import numpy as np
from reference.seeded_weights import SENTENCES

from spacy_elmo import BiLM

ROUNDING = 1e-3  # of vectors of a file in bfloat16


def assert_same(bilm: BiLM, expected: BiLM, *, limit: float = 0.0, but: Sequence[str] = ()) -> None:
    """Compare sizes, words, weights, vectors, and the digest unless weights may be rounded.

    limit (float): Largest difference of vectors. Above zero only these are compared, and weights if some may differ.
    but (Sequence[str]): Parameters that may differ.
    """
    assert bilm.digest == expected.digest or limit > ROUNDING
    assert (bilm.config, bilm.vocabulary, bilm.lexicon) == (expected.config, expected.vocabulary, expected.lexicon)
    assert type(bilm.head) is type(expected.head)
    for name in ("network", "head") if limit == 0 or but else ():
        modules = (getattr(bilm, name), getattr(expected, name))
        one, other = (module.state_dict() if module is not None else {} for module in modules)
        assert list(one) == list(other)
        for key in set(one) - set(but):
            assert one[key].numpy().tobytes() == other[key].numpy().tobytes(), key
    for found, wanted in zip(bilm.embed(SENTENCES), expected.embed(SENTENCES), strict=True):
        assert found.shape == wanted.shape and np.abs(found - wanted).max(initial=0.0) <= limit
