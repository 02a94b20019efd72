"""A plain transformer biLM in NumPy, from the equations of Vaswani et al. (2017) and the conventions of AllenNLP.

It takes the arrays of an AllenNLP archive under their names, computes in float64, one token and one head at a time, and
knows nothing of the package.
"""

from typing import Callable, Dict, List, Mapping, Sequence, Tuple

import numpy as np
from reference.numpy_bilm import character_row, sigmoid

CHARACTERS = "_text_field_embedder.token_embedder_token_characters."
N_HEADS = 8
Seen = Callable[[int], Sequence[int]]  # from a token, the tokens it sees


class NumpyTransformer:
    """arrays: names of the state dict to arrays. Sizes are those of the arrays."""

    def __init__(self, arrays: Mapping[str, np.ndarray], *, projection: str = "after_highway") -> None:
        self.arrays = {name: np.asarray(array, dtype="float64") for name, array in arrays.items()}
        self.projection = projection

    def word_vector(self, word: str) -> np.ndarray:
        """(P,)"""
        x = self._filters(word)
        if self.projection == "after_cnn":
            x = self._linear(CHARACTERS + "_encoder._module._projection", x)
        k = 0
        while f"{CHARACTERS}_encoder._module._highways._layers.{k}.weight" in self.arrays:
            scores = self._linear(f"{CHARACTERS}_encoder._module._highways._layers.{k}", x)
            gate = sigmoid(scores[len(x) :])
            x = gate * x + (1 - gate) * np.maximum(scores[: len(x)], 0)
            k += 1
        if self.projection == "after_highway":
            x = self._linear(CHARACTERS + "_encoder._module._projection", x)
        name = CHARACTERS + "_encoder._module._layer_norm"
        return self._norm(name, x) if name + ".gamma" in self.arrays else x

    def layers(self, words: Sequence[str]) -> np.ndarray:
        """(L+1, n + 2, 2P), boundaries included."""
        x = np.stack([self.word_vector(word) for word in ["<S>", *words, "</S>"]])
        placed = x + np.stack([self._position(at, x.shape[1]) for at in range(len(x))])
        n = len(x)
        stacks = [
            self._stack("forward", placed, lambda i: range(i + 1)),
            self._stack("backward", placed, lambda i: range(i, n)),
        ]
        return np.stack([np.concatenate([x, x], axis=1), *(np.concatenate(pair, axis=1) for pair in zip(*stacks))])

    def losses(
        self, words: Sequence[str], vocabulary: Sequence[str], weight: np.ndarray, bias: np.ndarray
    ) -> List[float]:
        """Summed negative log likelihoods of both directions."""
        sentence = ["<S>", *words, "</S>"]
        top = self.layers(words)[-1]
        width = top.shape[1] // 2
        ids = [vocabulary.index(word if word in vocabulary else "@@UNKNOWN@@") for word in sentence]
        found = []
        for rows, targets in ((top[:-1, :width], ids[1:]), (top[1:, width:], ids[:-1])):
            scores = rows @ weight.T + bias
            found.append(float(sum(np.log(np.exp(row).sum()) - row[target] for row, target in zip(scores, targets))))
        return found

    def _filters(self, word: str) -> np.ndarray:
        table = self.arrays[CHARACTERS + "_embedding._module.weight"]
        x = np.stack([table[i + 1] for i in character_row(word, 50)])  # (C, E)
        features = []
        i = 0
        while f"{CHARACTERS}_encoder._module.char_conv_{i}.weight" in self.arrays:
            weight = self.arrays[f"{CHARACTERS}_encoder._module.char_conv_{i}.weight"]  # (n, E, width)
            bias = self.arrays[f"{CHARACTERS}_encoder._module.char_conv_{i}.bias"]
            width = weight.shape[2]
            flat = weight.transpose(2, 1, 0).reshape(-1, len(bias))  # (width * E, n)
            features.append(np.max([x[at : at + width].reshape(-1) @ flat + bias for at in range(51 - width)], axis=0))
            i += 1
        return np.maximum(np.concatenate(features), 0)

    def _stack(self, direction: str, x: np.ndarray, seen_from: Seen) -> List[np.ndarray]:
        found = []
        layer = 0
        base = f"_contextualizer._{direction}_transformer."
        while f"{base}layers.{layer}.feed_forward.w_1.weight" in self.arrays:
            name = f"{base}layers.{layer}."
            x = x + self._attention(name + "self_attn.linears.", self._norm(name + "sublayer.0.norm", x), seen_from)
            hidden = np.maximum(self._linear(name + "feed_forward.w_1", self._norm(name + "sublayer.1.norm", x)), 0)
            x = x + self._linear(name + "feed_forward.w_2", hidden)
            found.append(x)
            layer += 1
        found[-1] = self._norm(base + "norm", x)
        return found

    def _attention(self, name: str, x: np.ndarray, seen_from: Seen) -> np.ndarray:
        query, key, value = (self._linear(f"{name}{k}", x) for k in range(3))
        width = x.shape[1] // N_HEADS
        rows = []
        for i in range(len(x)):
            seen = list(seen_from(i))
            heads = []
            for head in range(N_HEADS):
                part = slice(head * width, (head + 1) * width)
                scores = np.exp(key[seen][:, part] @ query[i, part] / np.sqrt(width))
                heads.append((scores / scores.sum()) @ value[seen][:, part])
            rows.append(np.concatenate(heads))
        return self._linear(f"{name}3", np.stack(rows))

    def _linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self.arrays[name + ".weight"].T + self.arrays[name + ".bias"]

    def _norm(self, name: str, x: np.ndarray) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        return self.arrays[name + ".gamma"] * centred / (x.std(-1, keepdims=True) + 1e-13) + self.arrays[name + ".beta"]

    def _position(self, at: int, width: int) -> np.ndarray:
        angles = [at / 10000.0 ** (2 * (k // 2) / width) for k in range(width)]
        return np.array([np.cos(angle) if k % 2 else np.sin(angle) for k, angle in enumerate(angles)])


def make_archive(
    *,
    width: int = 16,
    hidden: int = 24,
    n_layers: int = 2,
    projection: str = "after_highway",
    norm: bool = True,
    seed: int = 0,
) -> Tuple[Dict, Dict[str, np.ndarray]]:
    """The config and the state dict of an archive with random weights."""
    random = np.random.default_rng(seed)
    filters, e = [[1, 8], [3, 12]], 4
    n_filters = sum(n for _, n in filters)
    arrays: Dict[str, np.ndarray] = {"_last_average_loss": np.zeros(1)}

    def linear(name: str, n_out: int, n_in: int) -> None:
        arrays[name + ".weight"] = random.normal(0, n_in**-0.5, (n_out, n_in))
        arrays[name + ".bias"] = random.normal(0, 0.2, n_out)

    def layer_norm(name: str) -> None:
        arrays[name + ".gamma"], arrays[name + ".beta"] = random.normal(1, 0.2, width), random.normal(0, 0.2, width)

    module = CHARACTERS + "_encoder._module."
    arrays[CHARACTERS + "_embedding._module.weight"] = random.normal(0, 1, (262, e))
    for i, (size, n) in enumerate(filters):
        arrays[f"{module}char_conv_{i}.weight"] = random.normal(0, 0.5, (n, e, size))
        arrays[f"{module}char_conv_{i}.bias"] = random.normal(0, 0.2, n)
    for k in range(2):
        inner = width if projection == "after_cnn" else n_filters
        linear(f"{module}_highways._layers.{k}", 2 * inner, inner)
    linear(module + "_projection", width, n_filters)
    if norm:
        layer_norm(module + "_layer_norm")
    for direction in ("forward", "backward"):
        base = f"_contextualizer._{direction}_transformer."
        for layer in range(n_layers):
            for k in range(4):
                linear(f"{base}layers.{layer}.self_attn.linears.{k}", width, width)
            linear(f"{base}layers.{layer}.feed_forward.w_1", hidden, width)
            linear(f"{base}layers.{layer}.feed_forward.w_2", width, hidden)
            layer_norm(f"{base}layers.{layer}.sublayer.0.norm")
            layer_norm(f"{base}layers.{layer}.sublayer.1.norm")
        layer_norm(base + "norm")
    encoder = {
        "type": "cnn-highway",
        "embedding_dim": e,
        "filters": filters,
        "num_highway": 2,
        "projection_dim": width,
        "projection_location": projection,
        "do_layer_norm": norm,
    }
    embedding = {"num_embeddings": 262, "embedding_dim": e}
    characters = {"type": "character_encoding", "embedding": embedding, "encoder": encoder}
    contextualizer = {
        "type": "bidirectional_language_model_transformer",
        "input_dim": width,
        "hidden_dim": hidden,
        "num_layers": n_layers,
    }
    model = {
        "type": "language_model",
        "bidirectional": True,
        "num_samples": 10,
        "contextualizer": contextualizer,
        "text_field_embedder": {"token_embedders": {"tokens": {"type": "empty"}, "token_characters": characters}},
    }
    indexers = {"tokens": {"type": "single_id"}, "token_characters": {"type": "elmo_characters"}}
    config = {"dataset_reader": {"type": "simple_language_modeling", "token_indexers": indexers}, "model": model}
    return config, {name: array.astype("float32") for name, array in arrays.items()}
