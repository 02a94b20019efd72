"""Compare our numbers with those of bilm-tf and AllenNLP: all stored arrays of all cases, and the largest difference.

The cases are in `elmo-groundtruth` and `elmo-fixtures` of the shared data; their READMEs describe the arrays.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import h5py
import numpy as np
from reference.numpy_bilm import NumpyBiLM
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_elmo import BiLM, load_bilm
from spacy_elmo.inference.perplexity import LanguageModel, text_losses
from spacy_elmo.pipeline.listener import build_listener
from spacy_elmo.pipeline.mix import ElmoBatch
from spacy_elmo.text.words import character_ids

# Our rounding plus that of the reference, which grows with the layers: the tables of docs/exactness.md.
LIMIT = 2e-5
LIMIT_DEEP = 1e-4
MADE_CASES = ("small", "medium", "original")
SLOW_CASES = ("medium", "original")
CASES = (
    *("fixture", "tiny-1layer", "tiny-2layer", "tiny-3layer-tanh", "tiny-maxchars20", "tiny-n261", "tiny-noclip"),
    *("tiny-nocnnproj", "tiny-nohighway", "tiny-nohighwaykey", "tiny-noproj", "tiny-noskip", "tiny-odd-4layer"),
    *("tiny-smallclip", *MADE_CASES),
)
LM_CASES = (
    *("chars-1layer", "chars-2layer-forward-only", "chars-2layer-skip", "chars-2layer-tightclipnorm"),
    *("chars-3layer-noskip-tanh", "words-2layer", "words-2layer-shared"),
)
FIXTURES = ("bilm-tf", "allennlp")
# AllenNLP's norm over a batch is a setting of `nn` and `compat` only: test_nn.py and test_compat.py compare these.
NOT_OF_LISTENERS = {"allennlp_mix_norm1_marks0", "allennlp_mix_norm1_marks1"}
NORMS = {"allennlp": "allennlp", "bilm_tf": "bilm-tf"}

Difference = Tuple[str, float]


def limit_of(n_layers: int) -> float:
    """The largest difference that rounding explains."""
    return LIMIT_DEEP if n_layers >= 4 else LIMIT


class Case:
    """A folder with truth.npz. work: a folder for weights that have to be made."""

    def __init__(self, shared: Path, name: str, work: Path) -> None:
        self.shared, self.work = shared, work
        self.folder = shared / "data" / "elmo-groundtruth" / name
        self.facts: Dict[str, Any] = read_json(self.folder / "case.json")
        self.texts: List[List[str]] = [item["tokens"] for item in read_json(self.folder.parent / "sentences.json")]
        with np.load(self.folder / "truth.npz") as truth:
            self.truth = dict(truth)
        self.options = self.folder / "options.json"
        self.weights = self._find_weights(name)
        self.bilm = load_bilm(options=self.options, weights=self.weights)

    def differences(self) -> Iterator[Difference]:
        """Name and largest absolute difference of every array, all of them looked at."""
        seen = set()
        for name, found, wanted in self._pairs():
            seen.add(name)
            yield name, largest_difference(found, wanted)
        missed = set(self.truth) - NOT_OF_LISTENERS - seen
        assert not missed, f"arrays nobody compared: {missed}"

    def rounding(self) -> Iterator[Tuple[str, float, float, float]]:
        """Array and three largest differences: of ours from the reference, of ours from float64, of the reference from
        float64 (the plain NumPy biLM).
        """
        exact = dict(self._in_float64())
        for name, found, wanted in self._pairs():
            array = name.partition(",")[0]
            if array in exact:
                pairs = ((found, wanted), (found, exact[array]), (wanted, exact[array]))
                yield (name, *(largest_difference(one, other) for one, other in pairs))
            elif array != "char_ids":
                return  # mixes and states follow

    def _in_float64(self) -> Iterator[Tuple[str, Any]]:
        with h5py.File(self.weights, "r") as file:
            arrays: Dict[str, Any] = {}
            file.visititems(
                lambda name, item: arrays.update({name: item[()]} if isinstance(item, h5py.Dataset) else {})
            )
        plain = NumpyBiLM(read_json(self.options), arrays)
        yield "stateless", join([plain.layers(words)[0][:, 1:-1] for words in self._texts_of(self.facts["sentences"])])
        if "stateful" in self.truth:
            states: Dict[int, Any] = {}
            carried: List[Any] = []
            for batch in self.facts["stateful_batches"]:
                for row, words in enumerate(self._texts_of(batch)):
                    layers, states[row] = plain.layers(words, states.get(row))
                    carried.append(layers[:, 1:-1])
            yield "stateful", join(carried)

    def _find_weights(self, name: str) -> Path:
        if name == "fixture":
            return self.shared / "data" / "elmo-fixtures" / "allennlp" / "lm_weights.hdf5"
        if name not in MADE_CASES:
            return self.folder / "weights.hdf5"
        tool, origin = self.shared / "tools" / "make_weights.py", self.facts["origin"]
        command = [sys.executable, str(tool), "--size", origin["size"], "--seed", str(origin["seed"])]
        made = subprocess.run([*command, "--out", str(self.work)], check=True, capture_output=True, text=True)
        assert origin["arrays_sha256"] in made.stdout
        return self.work / "weights.hdf5"

    def _pairs(self) -> Iterator[Tuple[str, Any, Any]]:
        sentences = self._texts_of(self.facts["sentences"])
        yield "stateless", join(self.bilm.embed(sentences, state="reset")), self.truth["stateless"]
        alone = [self.bilm.embed([sentence], state="reset")[0] for sentence in sentences]
        yield "stateless, one by one", join(alone), self.truth["stateless"]
        if "char_ids" in self.truth:
            words = [word for words in sentences for word in words]
            yield "char_ids", character_ids(words, self.truth["char_ids"].shape[1]), self.truth["char_ids"]
        if "stateful" in self.truth:
            yield from self._stateful()
        if "allennlp_with_marks" in self.truth:
            found = join(self.bilm.embed(self._texts_of(self.facts["boundaries"]), boundaries=True))
            yield "allennlp_with_marks", found, self.truth["allennlp_with_marks"]
        if "mix" in self.facts:
            yield from self._mixes()
        if "vocab" in self.facts:
            yield from self._cached()

    def _texts_of(self, indices: List[int]) -> List[List[str]]:
        return [self.texts[i] for i in indices]

    def _stateful(self) -> Iterator[Tuple[str, Any, Any]]:
        vectors: List[Any] = []
        state = None
        for batch in self.facts["stateful_batches"]:
            found, state = self.bilm.embed(self._texts_of(batch), state=state, return_state=True)
            vectors += found
        assert state is not None
        yield "stateful", join(vectors), self.truth["stateful"]
        yield "state_h", state.h.numpy(), self.truth["state_h"]
        yield "state_c", state.c.numpy(), self.truth["state_c"]

    def _mixes(self) -> Iterator[Tuple[str, Any, Any]]:
        batch = self._texts_of(self.facts["mix"]["batch"])
        stacks = self.bilm.embed(batch, state="reset", boundaries=True)
        for name in (name for name in self.truth if "_mix_" in name and name not in NOT_OF_LISTENERS):
            has_marks = name.endswith("marks1")
            lengths = [len(words) + 2 * has_marks for words in batch]
            wanted = self.truth[name]
            if "_mask" in name:
                yield name, padded([np.ones(length) for length in lengths], wanted.shape[1]), wanted
                continue
            listener = self._make_listener(name)
            # With marks as rows of the result there are no Docs: the mix inside the listener gets the rows.
            found = listener.mix.predict(join(stacks)) if has_marks else listen(listener, batch, stacks)
            # Outside the mask one reference has zeros, the other leftovers: compared is what is inside.
            yield name, found, np.concatenate([row[:n] for row, n in zip(wanted, lengths)])
        penalties = self.facts["bilm_tf"]["regularization"]
        for name, value in penalties.items():
            yield f"penalty of {name}", penalty_of(self._make_listener(f"bilm_tf_{name}"), join(stacks)), np.sum(value)

    def _make_listener(self, name: str) -> Any:
        facts, n_layers = self.facts["mix"], self.bilm.config.n_layers + 1
        is_default, is_top = name.endswith("default"), name.endswith("top")
        listener: Any = build_listener(
            # The last layer alone is a softmax that has no doubt.
            initial_weights=None if is_default else [-1e4] * (n_layers - 1) + [0.0] if is_top else facts["weights"],
            learn_weights=not is_top,
            initial_gamma=1.0 if is_default else facts["gamma"],
            layer_norm="bilm-tf" if "norm1" in name else None,
            weights_l2=0.0 if is_top or name.endswith("no_l2") else facts["l2_coef"],
        )
        listener.set_sizes(n_layers, self.bilm.config.output_width)
        listener.mix.initialize()
        return listener

    def _cached(self) -> Iterator[Tuple[str, Any, Any]]:
        words = ["<S>", "</S>", "<UNK>", *self.facts["vocab"]]
        vectors = word_vectors(self.bilm, words)
        yield "bilm_tf_cached_vectors", vectors, self.truth["bilm_tf_cached_vectors"]
        yield "allennlp_cached_vectors", vectors[3:], self.truth["allennlp_cached_vectors"]
        with h5py.File(self.work / "cached.hdf5", "w") as file:
            file["embedding"] = vectors
        (self.work / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf8")
        cached = load_bilm(
            options=self.options,
            weights=self.weights,
            vocab=self.work / "vocab.txt",
            token_embeddings=self.work / "cached.hdf5",
        )
        found = join(cached.embed(self.facts["vocab_sentences"]))
        yield "bilm_tf_cached_stateless", found, self.truth["bilm_tf_cached_stateless"]


def listen(listener: Any, batch: List[List[str]], stacks: List[Any]) -> Any:
    """(sum n, D): what a listener gives for a training batch that it received. stacks: With rows of marks."""
    docs = [Doc(Vocab(), words=words) for words in batch]
    outputs = ElmoBatch(join([stack[:, 1:-1] for stack in stacks]), [len(words) for words in batch])
    listener.receive(listener.get_batch_id(docs), outputs, None)
    return np.concatenate(listener(docs, is_train=True)[0])


def penalty_of(listener: Any, layers: Any) -> float:
    """l2 * sum(w^2), from its gradient 2 * l2 * w, which is all that is left where nothing comes back."""
    mixed, backprop = listener.mix(layers, is_train=True)
    backprop(np.zeros_like(mixed), has_input_grad=False)
    if not listener.mix.has_grad("w"):
        return 0.0
    return float(listener.mix.get_grad("w") @ listener.mix.get_param("w")) / 2


def lm_differences(shared: Path, name: str, bilm: Optional[BiLM] = None) -> Iterator[Difference]:
    """Losses of a language model: log perplexities, the loss of every step, and sentence by sentence.

    bilm: The model from other files than those of the case.
    """
    root = shared / "data" / "elmo-groundtruth" / "lm"
    bilm = bilm or load_bilm(root / name, vocab=root / "vocab.txt")
    text = [line.split() for line in (root / "text.txt").read_text(encoding="utf8").splitlines()]
    facts = read_json(root / name / "bilm_tf.json")
    with np.load(root / name / "bilm_tf.npz") as stored:
        truth = {key: stored[key] for key in stored if key.startswith("step_")}
    for n_lanes in (1, 4):
        result = bilm.perplexity(text, state="carry", batch_size=n_lanes)
        wanted = np.log(facts[f"test_perplexity_batch{n_lanes}"])
        yield f"log perplexity, batch {n_lanes}", largest_difference(np.log(result.mean), wanted)
        means = np.log([result.forward, result.backward][: bilm.config.n_directions])
        yield f"mean loss, batch {n_lanes}", largest_difference(means, facts[f"mean_loss_batch{n_lanes}"])
        losses, targets = losses_of(bilm, text, "carry", n_lanes)
        steps = losses.reshape(len(losses), -1, n_lanes)  # (d, steps, lanes)
        yield f"step losses, batch {n_lanes}", largest_difference(steps.mean(2).T, truth[f"step_losses_batch{n_lanes}"])
        ids = targets.reshape(steps.shape).transpose(1, 0, 2)
        yield f"step targets, batch {n_lanes}", largest_difference(ids, truth[f"step_targets_batch{n_lanes}"])
    if (root / name / "allennlp.json").is_file():
        wanted = np.array(read_json(root / name / "allennlp.json")["per_sentence_forward_backward_targets"])
        losses, _ = losses_of(bilm, text, "reset", 1)
        parts = np.split(losses, np.cumsum([len(words) + 1 for words in text])[:-1], axis=1)
        yield "sentence losses, state reset", largest_difference([part.mean(1) for part in parts], wanted[:, :2])


def fixture_differences(shared: Path, name: str) -> Iterator[Difference]:
    """The test data of the two programs: the top layer with the state carried through ten batches of three."""
    root = shared / "data" / "elmo-fixtures" / name
    folder, texts = (root, "sentences.json") if name == "allennlp" else (root / "model", "lm_embeddings_sentences.json")
    bilm = load_bilm(options=folder / "options.json", weights=folder / "lm_weights.hdf5")
    columns = [[text.split() for text in column] for column in read_json(folder / texts)]
    state = None
    differences: Dict[int, List[float]] = {k: [] for k in range(len(columns))}
    for i, batch in enumerate(zip(*columns)):
        found, state = bilm.embed(list(batch), state=state, return_state=True, layers="top")
        for k, vectors in enumerate(found):
            with h5py.File(folder / f"lm_embeddings_{k}.hdf5", "r") as file:
                forward, backward = file[str(i)][()]
            differences[k].append(largest_difference(vectors, np.concatenate([forward, backward], axis=1)))
    for k, values in differences.items():
        yield f"lm_embeddings_{k}", max(values)
    if (folder / "elmo_token_embeddings.hdf5").is_file():
        words = (folder / "vocab_test.txt").read_text(encoding="utf8").split("\n")
        with h5py.File(folder / "elmo_token_embeddings.hdf5", "r") as file:
            yield "elmo_token_embeddings", largest_difference(word_vectors(bilm, words), file["embedding"][()])


def word_vectors(bilm: BiLM, words: List[str]) -> Any:
    """(U, P): what the biLM reads for each word, without context."""
    layers = bilm.embed([[word] for word in words], layers=0)
    return np.concatenate(layers)[:, : bilm.config.projection_width]


def losses_of(bilm: BiLM, text: List[List[str]], state: str, n_lanes: int) -> Tuple[Any, Any]:
    """Losses and targets (d, predictions), by step and then by lane, or by sentence where each is read by itself."""
    losses, targets, _ = zip(
        *text_losses(LanguageModel(bilm._encoder, bilm.head, bilm.vocabulary), text, state, n_lanes)
    )
    return np.concatenate(losses, axis=1), np.concatenate(targets, axis=1)


def largest_difference(found: Any, wanted: Any) -> float:
    """Of arrays of the same shape; NaN counts as infinite."""
    found, wanted = np.asarray(found, dtype="float64"), np.asarray(wanted, dtype="float64")
    assert found.shape == wanted.shape, f"shape is {found.shape}, should be {wanted.shape}"
    difference = np.abs(found - wanted)
    return float(np.nan_to_num(difference, nan=np.inf).max(initial=0.0))


def join(stacks: List[Any]) -> Any:
    """(L+1, sum n, D)"""
    return np.concatenate(stacks, axis=1)


def padded(rows: List[Any], length: int) -> Any:
    """(B, length), zero behind each row."""
    return np.stack([np.pad(row, (0, length - len(row))) for row in rows])


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf8"))
