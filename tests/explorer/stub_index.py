"""An index of a few sentences about banks, with made-up vectors: what the explorer asks of an index, and no more."""

import numpy as np

from spacy_elmo.analysis.neighbors import Neighbor
from spacy_elmo.analysis.token_store import Use

PLACES = ("the muddy bank of the river", "a grassy bank near the stream", "the bank of the lake was steep")
MONEY = ("the bank lent him money", "her bank raised its rates", "a bank account with no fee")
HOSTILE = 'the <script>alert(1)</script> bank \u202e of "><img src=x onerror=alert(1)> \U0001f30a \x00 end'


class StubIndex:
    """Uses of "bank".

    n_copies (int): How often each sentence is stored; 0 for an empty index.
    """

    layer = 2
    bilm_digest = "0" * 12

    def __init__(self, n_copies=4):
        sentences = [sentence.split(" ") for sentence in [*PLACES, *MONEY, HOSTILE] * n_copies]
        self._uses = [Use("bank", s, s.index("bank"), f"<b>doc</b> {i}") for i, s in enumerate(sentences)]
        self.n_tokens, self.n_documents = len(self._uses), min(len(self._uses), 7)
        self.words = {"bank": len(self._uses)} if self._uses else {}

    def find(self, bilm, words, position, k=10, *, uses="any"):
        """The first k uses; those of another word do not exist."""
        found = [] if uses == "other" else self._uses[:k]
        return [Neighbor(use, 0.9 - 0.01 * i) for i, use in enumerate(found)]

    def uses(self, word, limit=1000):
        """Uses about places and about money lie apart."""
        words = [word] if isinstance(word, str) else word
        found = self._uses[:limit] if "bank" in map(str.lower, words) else []
        rng = np.random.default_rng(0)
        centres = [[5.0, 0.0, 0.0] if " ".join(use.words) in MONEY else [0.0, 5.0, 0.0] for use in found]
        return found, (np.reshape(centres, (-1, 3)) + rng.normal(size=(len(found), 3))).astype("float32")

    def count_uses(self, word):
        return len(self.uses(word, len(self._uses))[0])
