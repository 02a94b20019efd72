"""A model of ELMoForManyLangs in NumPy, from the paper (Che et al. 2018) and the facts of its program.

It takes the architecture, the tensors under their names in the files, and the two tables of symbols; it computes in
float64, one word and one step at a time, and knows nothing of the package.
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
from reference.numpy_bilm import clip, sigmoid

State = List[Tuple[np.ndarray, np.ndarray]]  # h and c of each layer and direction


class NumpyManyLangs:
    """architecture: the JSON. embedder, encoder: tensors of the two files. characters, words: symbol to id."""

    def __init__(
        self,
        architecture: Mapping[str, Any],
        embedder: Mapping[str, Any],
        encoder: Mapping[str, Any],
        characters: Mapping[str, int],
        words: Mapping[str, int],
    ) -> None:
        self.embedder_settings, self.settings = architecture["token_embedder"], architecture["encoder"]
        self.embedder: Dict[str, np.ndarray] = {k: np.asarray(v, dtype="float64") for k, v in embedder.items()}
        self.encoder: Dict[str, np.ndarray] = {k: np.asarray(v, dtype="float64") for k, v in encoder.items()}
        self.characters, self.words = characters, words

    # One word.

    def word_vector(self, word: str, is_boundary: bool = False) -> np.ndarray:
        """(P,)"""
        limit = self.embedder_settings.get("max_characters_per_token")
        if self.embedder_settings["name"] == "cnn" and not is_boundary and len(word) + 2 > limit:
            word = word[: limit - 2]
        parts = []
        if self.embedder_settings["word_dim"]:
            parts.append(self.embedder["word_emb_layer.embedding.weight"][self.words.get(word, self.words["<oov>"])])
        if self.embedder_settings["char_dim"]:
            table = self.characters
            content = [word] if word in ("<bos>", "<eos>") else list(word)
            ids = [table["<eow>"], *(table.get(c, table["<oov>"]) for c in content), table["<bow>"]]  # swapped
            parts.append(self._cnn(ids) if self.embedder_settings["name"] == "cnn" else self._char_lstm(ids))
        return self.embedder["projection.weight"] @ np.concatenate(parts) + self.embedder["projection.bias"]

    def padding_vector(self) -> np.ndarray:
        """(P,), the vector behind the end of a sentence in a padded batch. Its characters are all padding."""
        parts = []
        if self.embedder_settings["word_dim"]:
            parts.append(self.embedder["word_emb_layer.embedding.weight"][self.words["<pad>"]])
        if self.embedder_settings["char_dim"]:
            parts.append(self._cnn([]))
        return self.embedder["projection.weight"] @ np.concatenate(parts) + self.embedder["projection.bias"]

    def _cnn(self, ids: List[int]) -> np.ndarray:
        n = self.embedder_settings["max_characters_per_token"]
        x = self.embedder["char_emb_layer.embedding.weight"][ids + [self.characters["<pad>"]] * (n - len(ids))]
        features = []
        for i, (width, _) in enumerate(self.embedder_settings["filters"]):
            weight = self.embedder[f"convolutions.{i}.weight"]  # (n, E, width)
            windows = [np.einsum("we,new->n", x[at : at + width], weight) for at in range(n - width + 1)]
            pooled = np.max(windows, axis=0) + self.embedder[f"convolutions.{i}.bias"]
            is_tanh = self.embedder_settings["activation"] == "tanh"
            features.append(np.tanh(pooled) if is_tanh else np.maximum(pooled, 0))
        y = np.concatenate(features)
        for k in range(self.embedder_settings["n_highway"]):
            scores = self.embedder[f"highways._layers.{k}.weight"] @ y + self.embedder[f"highways._layers.{k}.bias"]
            new, carry = np.maximum(scores[: len(y)], 0), sigmoid(scores[len(y) :])
            y = carry * y + (1.0 - carry) * new
        return y

    def _char_lstm(self, ids: List[int]) -> np.ndarray:
        x = self.embedder["char_emb_layer.embedding.weight"][ids]
        forward = self._torch_lstm(self.embedder, "char_lstm.", 0, "", x)
        backward = self._torch_lstm(self.embedder, "char_lstm.", 0, "_reverse", x[::-1])
        return np.concatenate([forward[-1], backward[-1]])

    @staticmethod
    def _torch_lstm(
        arrays: Mapping[str, np.ndarray], prefix: str, layer: int, suffix: str, inputs: np.ndarray
    ) -> np.ndarray:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        w, u, b, d = (arrays[f"{prefix}{name}_l{layer}{suffix}"] for name in names)
        h, c, outputs = np.zeros(u.shape[1]), np.zeros(u.shape[1]), []
        for x in inputs:
            i, f, j, o = np.split(w @ x + b + u @ h + d, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(j)
            h = sigmoid(o) * np.tanh(c)
            outputs.append(h)
        return np.stack(outputs)

    # A sentence.

    def zero_state(self) -> State:
        sizes = (self.settings["projection_dim"], self.settings["dim"])
        n = 2 * self.settings["n_layers"]
        return [(np.zeros(sizes[0]), np.zeros(sizes[1])) for _ in range(n)]

    def layers(self, words: Sequence[str], state: Optional[State] = None) -> Tuple[np.ndarray, State]:
        """(L+1, n, D) without the boundaries, and the state afterwards; for the encoder `lstm` (2, n, D)."""
        x = np.stack([self.word_vector("<bos>", True), *map(self.word_vector, words), self.word_vector("<eos>", True)])
        first = np.concatenate([x, x], axis=1)
        if self.settings["name"] == "lstm":
            return np.stack([first, self._plain(x)])[:, 1:-1], []
        found, after = [first], []
        old = self.zero_state() if state is None else state
        inputs = [x, x[::-1]]
        for layer in range(self.settings["n_layers"]):
            for d, name in enumerate(("forward", "backward")):
                outputs, end = self._projected(f"{name}_layer_{layer}.", inputs[d], *old[2 * layer + d])
                inputs[d] = outputs + inputs[d] if layer else outputs
                after.append(end)
            found.append(np.concatenate([inputs[0], inputs[1][::-1]], axis=1))
        return np.stack(found)[:, 1:-1], after

    def padded_top(self, batch: Sequence[Sequence[str]]) -> List[np.ndarray]:
        """(n, D) for each sentence of a batch that the encoder `lstm` reads with its padding."""
        longest, found = max(map(len, batch)), []
        for words in batch:
            x = [self.word_vector("<bos>", True), *map(self.word_vector, words), self.word_vector("<eos>", True)]
            x += [self.padding_vector()] * (longest - len(words))
            found.append(self._plain(np.stack(x))[1 : len(words) + 1])
        return found

    def _plain(self, x: np.ndarray) -> np.ndarray:
        for layer in range(self.settings["n_layers"]):
            forward = self._torch_lstm(self.encoder, "encoder.", layer, "", x)
            backward = self._torch_lstm(self.encoder, "encoder.", layer, "_reverse", x[::-1])[::-1]
            x = np.concatenate([forward, backward], axis=1)
        weight, bias = self.encoder["projection.weight"], self.encoder["projection.bias"]
        return np.concatenate([forward @ weight.T + bias, backward @ weight.T + bias], axis=1)

    def _projected(
        self, name: str, inputs: np.ndarray, h: np.ndarray, c: np.ndarray
    ) -> Tuple[np.ndarray, Tuple[np.ndarray, np.ndarray]]:
        w, u = (self.encoder[f"{name}{part}_linearity.weight"] for part in ("input", "state"))
        bias, projection = self.encoder[f"{name}state_linearity.bias"], self.encoder[f"{name}state_projection.weight"]
        outputs = []
        for x in inputs:
            i, f, j, o = np.split(w @ x + u @ h + bias, 4)
            c = clip(sigmoid(i) * np.tanh(j) + sigmoid(f) * c, self.settings["cell_clip"])
            h = clip(projection @ (sigmoid(o) * np.tanh(c)), self.settings["proj_clip"])
            outputs.append(h)
        return np.stack(outputs), (h, c)
