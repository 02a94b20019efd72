"""Six training steps of bilm-tf, and one call of TensorFlow's sampled softmax, compared with ours."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import numpy as np
import torch

from spacy_elmo import BiLM, load_bilm
from spacy_elmo.pretraining.objective import make_objective, sampled_losses
from spacy_elmo.pretraining.optimizer import PretrainOptimizer
from spacy_elmo.pretraining.run_config import OptimizerConfig, ScheduleConfig, SoftmaxConfig
from spacy_elmo.text.words import SENTENCE_BEGIN, SENTENCE_END, character_ids
from spacy_elmo.weights.formats.bilm_tf import SOFTMAX_BIAS, SOFTMAX_WEIGHT, tf_datasets
from spacy_elmo.weights.tensor_map import export_arrays, to_arrays

from .cases import Difference, largest_difference, read_json

# Rounding grows from step to step: in float64 our weights of chars-2layer-skip, the case with the largest difference,
# are 1.0e-5 away from bilm-tf's and 1.1e-5 from our own in float32.
LIMIT_TRAINED = 5e-5
ADAGRAD = OptimizerConfig(name="adagrad", learn_rate=0.2, initial_accumulator=1.0)
CONSTANT = ScheduleConfig(name="constant", warmup_steps=0)
Words = List[List[List[str]]]  # (d, B, S)


def training_differences(shared: Path, name: str) -> Iterator[Difference]:
    """Ids that are read, losses of each direction, norms before clipping (relative), weights after the last step."""
    root = shared / "data" / "elmo-groundtruth" / "lm"
    facts, options = read_json(root / name / "bilm_tf.json"), read_json(root / name / "options.json")
    with np.load(root / name / "bilm_tf.npz") as stored:
        truth = dict(stored)
    text = [line.split() for line in (root / "text.txt").read_text(encoding="utf8").splitlines()]
    bilm = load_bilm(root / name, vocab=root / "vocab.txt")
    n_updates, n_lanes, n_steps = truth["train_token_ids"].shape
    losses, norms, ids = [], [], []
    trainer = _Trainer(bilm, options)
    for k, (inputs, targets) in enumerate(_batches(text, n_updates, n_lanes, n_steps)):
        for which, ending in enumerate(("", "_reverse")[: bilm.config.n_directions]):
            ids.append(_id_difference(bilm, inputs[which], truth["train_token_ids" + ending][k]))
            ids.append(_id_difference(bilm, targets[which], truth["train_next_ids" + ending][k]))
        step_losses, norm = trainer.update(k, inputs, targets)
        losses.append(step_losses)
        norms.append(norm)
    yield "train ids", max(ids)
    yield "train losses", largest_difference(losses, facts["train_losses"])
    yield (
        "gradient norms, relative",
        largest_difference(np.array(norms) / facts["train_gradient_norms_before_clipping"], np.ones(n_updates)),
    )
    wanted = {key.partition("/")[2]: array for key, array in truth.items() if key.startswith("after_6_steps/")}
    found = _arrays(bilm)
    assert set(found) - {SOFTMAX_WEIGHT} == set(wanted) - {SOFTMAX_WEIGHT}
    yield "weights after 6 steps", max(largest_difference(found[key], array) for key, array in wanted.items())


def sampled_difference(shared: Path, *, sparse: bool) -> float:
    """Losses of TensorFlow's `sampled_softmax_loss` with its own draws."""
    with np.load(shared / "data" / "elmo-groundtruth" / "lm" / "sampled_softmax.npz") as stored:
        call = {name: torch.from_numpy(array) for name, array in stored.items()}
    found = sampled_losses(
        call["inputs"],
        call["weights"].requires_grad_(),
        call["biases"].requires_grad_(),
        call["labels"],
        call["sampled_ids"],
        call["true_expected_count"].log(),
        call["sampled_expected_count"].log(),
        sparse=sparse,
    )
    return largest_difference(found.detach(), call["losses"])


class _Trainer:
    """The update of bilm-tf: full softmax, loss times steps, Adagrad, state carried."""

    def __init__(self, bilm: BiLM, options: Dict[str, Any]) -> None:
        assert bilm.head is not None
        settings = replace(ADAGRAD, grad_clip=options["all_clip_norm_val"], learn_rate=options["learning_rate"])
        self.bilm = bilm
        self.objective = make_objective(bilm.head, SoftmaxConfig(kind="full"))
        self.optimizer = PretrainOptimizer(bilm.network, bilm.head, settings, CONSTANT, max_tokens=1000)
        self.state = bilm.network.zero_state(options["batch_size"])
        bilm.network.train()

    def update(self, step: int, inputs: Words, targets: Words) -> Tuple[List[float], float]:
        """Losses of each direction and the norm of the gradient."""
        network, vocabulary = self.bilm.network, self.bilm.vocabulary
        d = network.config.n_directions
        words, index = np.unique(np.array(inputs[:d], dtype=object), return_inverse=True)
        places = torch.from_numpy(index.reshape(d, len(inputs[0]), -1)).transpose(1, 2)  # (d, S, B)
        characters = network.config.char_cnn
        ids = vocabulary.ids(words) if characters is None else character_ids(words, characters.max_characters)
        vectors = network.word_vectors(torch.from_numpy(np.asarray(ids, dtype="int64")))
        layers, self.state = network(vectors, places.contiguous(), self.state)
        flat = [word for lanes in targets[:d] for step_words in zip(*lanes) for word in step_words]
        wanted = torch.from_numpy(np.asarray(vocabulary.ids(flat), dtype="int64"))
        losses = self.objective(layers[-1].flatten(0, 2), wanted).view(d, -1).mean(dim=1)
        self.optimizer.zero_grad()
        (losses.mean() * len(inputs[0][0])).backward()
        info = self.optimizer.step(step=step, n_tokens=0)
        return losses.tolist(), info.grad_norm


def _batches(text: List[List[str]], n: int, n_lanes: int, n_steps: int) -> Iterator[Tuple[Words, Words]]:
    """As the training data of bilm-tf: lane by lane, each takes sentences until it has its steps."""
    sentences = iter(text)
    waiting: List[List[Tuple[str, str, str, str]]] = [[] for _ in range(n_lanes)]
    for _ in range(n):
        rows = []
        for lane in waiting:
            while len(lane) < n_steps:
                lane.extend(_read_and_predict(next(sentences)))
            rows.append(lane[:n_steps])
            del lane[:n_steps]
        columns = [[[slot[kind] for slot in row] for row in rows] for kind in range(4)]
        yield columns[:2], columns[2:]


def _read_and_predict(words: List[str]) -> Iterator[Tuple[str, str, str, str]]:
    marked, turned = [SENTENCE_BEGIN, *words, SENTENCE_END], [SENTENCE_END, *reversed(words), SENTENCE_BEGIN]
    return zip(marked[:-1], turned[:-1], marked[1:], turned[1:])


def _id_difference(bilm: BiLM, words: List[List[str]], wanted: Any) -> float:
    assert bilm.vocabulary is not None
    return largest_difference([bilm.vocabulary.ids(row) for row in words], wanted)


def _arrays(bilm: BiLM) -> Dict[str, Any]:
    head = to_arrays(bilm.head)  # type: ignore[arg-type]
    arrays = export_arrays(tf_datasets(bilm.config), to_arrays(bilm.network))
    return {**arrays, SOFTMAX_WEIGHT: head["weight"], SOFTMAX_BIAS: head["bias"]}
