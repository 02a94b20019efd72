"""What the recipes share: options, word features, layers of a frozen biLM, batches, training, results."""

import argparse
import copy
import statistics
import time
import zlib
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from spacy_elmo.nn import Elmo

Words = Sequence[str]
N_ROWS = 20_000  # of the table of word features


def positive(text: str) -> int:
    """RETURNS (int): The number. RAISES (argparse.ArgumentTypeError): If it is not a whole number above 0."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above 0")
    return int(text)


def make_parser(description: str, data: str, epochs: int, every: Optional[int] = None) -> argparse.ArgumentParser:
    """RETURNS (argparse.ArgumentParser): The options of every recipe; `data` is a folder of the shared data."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data") / data, help="folder with the data")
    parser.add_argument("--bilm", default="en_elmo_sm", help="packaged name or path of the biLM")
    parser.add_argument("--seeds", type=positive, default=2, help="models that are trained in each condition")
    parser.add_argument("--epochs", type=positive, default=epochs, help="passes through the training part, at most")
    parser.add_argument("--limit", type=positive, default=None, help="lines to read of each file, the first ones")
    if every is not None:
        parser.add_argument("--every", type=positive, default=every, help="train on every nth line; 1 for all")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--with-elmo", action="store_true", help="train with ELMo only")
    only.add_argument("--without-elmo", action="store_true", help="train without ELMo only")
    return parser


def load_elmo(bilm: str) -> Elmo:
    """RETURNS (Elmo): The biLM with a mix. RAISES (SystemExit): If it cannot be loaded."""
    try:
        return Elmo(bilm)
    except (OSError, ValueError) as error:
        raise SystemExit(f"--bilm is '{bilm}', which cannot be loaded: {error}") from error


class WordFeatures(nn.Module):
    """Learned word vectors: sums over word, prefix, suffix and shape, hashed so that unseen words have vectors."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(N_ROWS, width, mode="sum")
        nn.init.normal_(self.table.weight, std=0.1)

    def forward(self, sentences: Sequence[Words]) -> Tensor:
        """RETURNS (Tensor): Shape (B, S, width), zeros behind each sentence."""
        rows = torch.tensor([self.rows_of(word) for words in sentences for word in words])  # (T, 4)
        return pad(self.table(rows).split([len(words) for words in sentences]))

    @staticmethod
    def rows_of(word: str) -> List[int]:
        shape = "".join("X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in word[:6])
        features = (word.lower(), f"prefix {word[:2]}", f"suffix {word[-3:]}", f"shape {shape}")
        return [zlib.crc32(feature.encode("utf8", "ignore")) % N_ROWS for feature in features]


class FrozenLayers:
    """The layers of each sentence (n, L+1, D), computed once: those of a frozen biLM are the same in every epoch.

    Their mix is learned, so that the layers are kept, in float16 to halve the memory.
    """

    def __init__(self, bilm: str, sentences: Iterable[Words]) -> None:
        self.elmo = load_elmo(bilm)
        self.layers: Dict[Words, Tensor] = {}
        distinct = sorted({tuple(words) for words in sentences}, key=len)
        for i in range(0, len(distinct), 256):
            padded, _ = self.elmo.encode(distinct[i : i + 256])  # (L+1, B, S, D)
            for words, layers in zip(distinct[i : i + 256], padded.transpose(0, 1)):
                self.layers[words] = layers[:, : len(words)].half().transpose(0, 1)

    def __call__(self, sentences: Sequence[Words]) -> Tuple[Tensor, Tensor]:
        """RETURNS (Tuple[Tensor, Tensor]): Padded layers (L+1, B, S, D) and mask (B, S), for `Elmo.mix`."""
        mask = pad([torch.ones(len(words), dtype=torch.bool) for words in sentences])
        return pad([self.layers[tuple(words)] for words in sentences]).permute(2, 0, 1, 3), mask

    def new_mixes(self, n: int = 1, dropout: float = 0.5) -> Elmo:
        """RETURNS (Elmo): New mixes over the same biLM, for one model; its state dict has no biLM."""
        return Elmo(self.elmo.bilm, n, dropout=dropout, store_bilm=False)


def pad(rows: Sequence[Tensor]) -> Tensor:
    """From B tensors (n, ...) to (B, S, ...), zeros behind each."""
    return nn.utils.rnn.pad_sequence(list(rows), batch_first=True)


def make_batches(items: Sequence[Any], size: int, length: Callable[[Any], int]) -> Iterator[List[Any]]:
    """YIELDS (List[Any]): Batches in random order, of items of similar length."""
    shuffled = [items[i] for i in torch.randperm(len(items))]
    by_length = sorted(shuffled, key=length)
    for start in torch.randperm(-(-len(items) // size)) * size:
        yield by_length[start : start + size]


def train(
    model: nn.Module,
    batches: Callable[[], Iterable[Any]],
    loss_of: Callable[[Any], Tensor],
    score: Callable[[], float],
    *,
    epochs: int,
    patience: int = 2,
    rate: float = 1e-3,
) -> None:
    """Train with Adam until the dev score has not risen for `patience` epochs; keep the weights of the best one."""
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=rate)
    best, best_state, n_worse, start = -1.0, model.state_dict(), 0, time.process_time()
    for epoch in range(epochs):
        model.train()
        losses = []
        for batch in batches():
            optimizer.zero_grad()
            loss = loss_of(batch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            found = score()
        cpu_s = time.process_time() - start
        print(f"  epoch {epoch + 1}: loss {statistics.mean(losses):.3f}, dev {found:.2f}, {cpu_s:.0f} s", flush=True)
        if found > best:
            best, best_state, n_worse = found, copy.deepcopy(model.state_dict()), 0
        elif (n_worse := n_worse + 1) == patience:
            break
    model.load_state_dict(best_state)


def compare(arguments: argparse.Namespace, run: Callable[[bool], Dict[str, float]]) -> None:
    """Print the scores, by name, that `run(with_elmo)` returns for each condition and seed, and their means."""
    skipped = "without" if arguments.with_elmo else "with" if arguments.without_elmo else ""
    found: Dict[str, List[Dict[str, float]]] = {name: [] for name in ("without", "with") if name != skipped}
    for condition, runs in found.items():
        for seed in range(arguments.seeds):
            print(f"{condition} ELMo, seed {seed}", flush=True)
            torch.manual_seed(seed)
            runs.append(run(condition == "with"))
    for name in next(iter(found.values()))[0]:
        for condition, runs in found.items():
            scores = [run[name] for run in runs]
            each = ", ".join(f"{score:.2f}" for score in scores)
            print(f"{name:28} {condition:>7} ELMo {statistics.mean(scores):6.2f}  ({each})")
