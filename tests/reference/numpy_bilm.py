"""A plain biLM in NumPy, written from the equations: the reference for all faster implementations.

Peters et al. (2018), sec. 3; Kim et al. (2016) for the characters; Srivastava et al. (2015) for the highways; Sak et
al. (2014) for the projected LSTM. It takes bilm-tf's options and arrays under their names in the HDF5 file, computes in
float64, one word and one step at a time, and knows nothing of the package.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

BEGIN_OF_SENTENCE, END_OF_SENTENCE, BEGIN_OF_WORD, END_OF_WORD, PADDING = 256, 257, 258, 259, 260


class State(NamedTuple):
    """h: (L, d * P), c: (L, d * H), forward half first."""

    h: np.ndarray
    c: np.ndarray


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def clip(x: np.ndarray, limit: Optional[float]) -> np.ndarray:
    return np.clip(x, -limit, limit) if limit else x


def character_row(word: str, n: int) -> List[int]:
    """n ids of one word, not shifted: begin, bytes, end, padding."""
    marks = {"<S>": [BEGIN_OF_SENTENCE], "</S>": [END_OF_SENTENCE]}
    content = marks.get(word) or list(word.encode("utf-8", "ignore"))[: n - 2]
    ids = [BEGIN_OF_WORD, *content, END_OF_WORD]
    return ids + [PADDING] * (n - len(ids))


class NumpyBiLM:
    """options: bilm-tf's options. arrays: HDF5 names to arrays. vocab: words of a word table, in order."""

    def __init__(self, options: Mapping[str, Any], arrays: Mapping[str, np.ndarray], vocab: Sequence[str] = ()) -> None:
        self.arrays = {name: np.asarray(array, dtype="float64") for name, array in arrays.items()}
        self.characters = options.get("char_cnn")
        lstm = options["lstm"]
        self.n_layers: int = lstm.get("n_layers", 1)
        self.cell_width: int = lstm["dim"]
        self.width: int = lstm["projection_dim"]
        self.cell_clip, self.projection_clip = lstm.get("cell_clip"), lstm.get("proj_clip")
        self.has_skip = bool(lstm.get("use_skip_connections"))
        self.has_highways = bool(lstm.get("highways_between"))  # an option and arrays of our own
        self.n_directions = 1 if options.get("bidirectional") is False else 2
        self.vocab = {word: i for i, word in enumerate(vocab)}
        self.token_embeddings: Optional[np.ndarray] = None

    # One word.

    def word_vector(self, word: str) -> np.ndarray:
        """(P,)"""
        if self.token_embeddings is not None:
            return self.token_embeddings[self.vocab.get(word, self.vocab["<UNK>"])]
        if self.characters is None:
            return self.arrays["embedding"][self.vocab.get(word, self.vocab["<UNK>"])]
        x = self._filters(word)
        for k in range(self.characters.get("n_highway") or 0):
            x = self._highway(k, x)
        if "CNN_proj/W_proj" in self.arrays:
            x = x @ self.arrays["CNN_proj/W_proj"] + self.arrays["CNN_proj/b_proj"]
        return x

    def _filters(self, word: str) -> np.ndarray:
        n = self.characters.get("max_characters_per_token", 50)
        table = self.arrays["char_embed"]
        x = np.stack([table[i] for i in character_row(word, n)])  # (C, E)
        features = []
        for i, (width, _) in enumerate(self.characters["filters"]):
            weight, bias = self.arrays[f"CNN/W_cnn_{i}"][0], self.arrays[f"CNN/b_cnn_{i}"]
            windows = [np.einsum("we,wen->n", x[at : at + width], weight) + bias for at in range(n - width + 1)]
            features.append(np.max(windows, axis=0))
        pooled = np.concatenate(features)
        return np.maximum(pooled, 0.0) if self.characters["activation"] == "relu" else np.tanh(pooled)

    def _highway(self, k: int, x: np.ndarray) -> np.ndarray:
        name = f"CNN_high_{k}/"
        gate = sigmoid(x @ self.arrays[name + "W_carry"] + self.arrays[name + "b_carry"])
        transformed = np.maximum(x @ self.arrays[name + "W_transform"] + self.arrays[name + "b_transform"], 0.0)
        return gate * transformed + (1.0 - gate) * x

    # One direction of one layer.

    def _lstm(
        self, direction: int, layer: int, inputs: np.ndarray, h: np.ndarray, c: np.ndarray
    ) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
        name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/"
        weight, bias = self.arrays[name + "W_0"], self.arrays[name + "B"]
        outputs = []
        for x in inputs:
            i, j, f, o = np.split(np.concatenate([x, h]) @ weight + bias, 4)
            c = clip(sigmoid(f + 1.0) * c + sigmoid(i) * np.tanh(j), self.cell_clip)
            h = sigmoid(o) * np.tanh(c)
            if self.width < self.cell_width:
                h = clip(h @ self.arrays[name + "W_P_0"], self.projection_clip)
            outputs.append(h)
        return np.stack(outputs), h, c

    def _past(self, direction: int, layer: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if self.has_highways:
            name = f"highway_{direction}_{layer}/"
            gate = sigmoid(x @ self.arrays[name + "W"] + self.arrays[name + "b"])
            return gate * y + (1.0 - gate) * x
        return y + x if self.has_skip else y

    def _direction(self, direction: int, x: np.ndarray, state: State) -> Tuple[List[np.ndarray], State]:
        """Layers in reading order of the direction, and the state after the last step."""
        p, width = self.width, self.cell_width
        layers, hs, cs = [], [], []
        for layer in range(self.n_layers):
            h = state.h[layer, direction * p : (direction + 1) * p]
            c = state.c[layer, direction * width : (direction + 1) * width]
            y, h, c = self._lstm(direction, layer, x, h, c)
            x = self._past(direction, layer, x, y) if layer > 0 else y
            layers.append(x)
            hs.append(h)
            cs.append(c)
        return layers, State(np.stack(hs), np.stack(cs))

    # A sentence.

    def zero_state(self) -> State:
        d = self.n_directions
        return State(np.zeros((self.n_layers, d * self.width)), np.zeros((self.n_layers, d * self.cell_width)))

    def layers(self, words: Sequence[str], state: Optional[State] = None) -> Tuple[np.ndarray, State]:
        """(L+1, n + 2, D) with the boundaries, and the state afterwards."""
        state = self.zero_state() if state is None else state
        x = np.stack([self.word_vector(word) for word in ["<S>", *words, "</S>"]])
        stacks, states = [[x] * self.n_directions], []
        forward, new = self._direction(0, x, state)
        states.append(new)
        stacks += [[layer] for layer in forward]
        if self.n_directions == 2:
            backward, new = self._direction(1, x[::-1], state)
            states.append(new)
            for stack, layer in zip(stacks[1:], backward):
                stack.append(layer[::-1])
        h, c = (np.concatenate(parts, axis=1) for parts in zip(*states))
        return np.stack([np.concatenate(stack, axis=1) for stack in stacks]), State(h, c)

    def steady_state(self) -> State:
        """The state after empty sentences, from zero until it stands still."""
        state = self.zero_state()
        for _ in range(50):
            _, new = self.layers([], state)
            change = max(np.abs(new.h - state.h).max(), np.abs(new.c - state.c).max())
            state = new
            if change < 1e-6:
                break
        return state

    def losses(self, words: Sequence[str], state: Optional[State] = None) -> Tuple[List[np.ndarray], State]:
        """Per direction the negative log likelihood of n + 1 words, in reading order, and the state afterwards.

        A direction reads all words but the last mark and predicts each next one.
        """
        state = self.zero_state() if state is None else state
        sentence = ["<S>", *words, "</S>"]
        losses, states = [], []
        for direction in range(self.n_directions):
            order = sentence[:: 1 if direction == 0 else -1]
            x = np.stack([self.word_vector(word) for word in order[:-1]])
            layers, new = self._direction(direction, x, state)
            scores = layers[-1] @ self.arrays["softmax/W"].T + self.arrays["softmax/b"]
            targets = [self.vocab.get(word, self.vocab["<UNK>"]) for word in order[1:]]
            log_total = np.log(np.exp(scores - scores.max(1, keepdims=True)).sum(1)) + scores.max(1)
            losses.append(log_total - scores[np.arange(len(targets)), targets])
            states.append(new)
        h, c = (np.concatenate(parts, axis=1) for parts in zip(*states))
        return losses, State(h, c)


def mix(
    layers: np.ndarray, weights: Sequence[float], gamma: float, norm: str = "none", is_mark: Optional[np.ndarray] = None
) -> np.ndarray:
    """gamma * sum_j softmax(w)_j * h_j over (L+1, T, D).

    norm: "none"; "token", each row by itself; "bilm-tf", each layer over all rows but the marks; "allennlp", with them.
    """
    layers = np.asarray(layers, dtype="float64")
    normed = []
    for layer in layers:
        if norm == "token":
            layer = np.stack([(row - row.mean()) / np.sqrt(row.var() + 1e-12) for row in layer])
        elif norm == "bilm-tf":
            counted = layer if is_mark is None else layer[~is_mark]
            layer = (layer - counted.mean()) / np.sqrt(counted.var() + 1e-12)
        elif norm == "allennlp":
            layer = (layer - layer.mean()) / np.sqrt(layer.var() + 1e-13)
        normed.append(layer)
    shares = np.exp(weights) / np.exp(weights).sum()
    return gamma * sum(share * layer for share, layer in zip(shares, normed))


def merge_options(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Dict[str, Any]:
    """A copy of options with nested changes; a value of `...` removes the key."""
    merged: Dict[str, Any] = dict(base)
    for key, value in changes.items():
        if value is ...:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge_options(merged[key], value)
        else:
            merged[key] = value
    return merged
