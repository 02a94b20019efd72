"""Semantic role labelling: who did what to whom, for a given predicate (PropBank roles of UD English-EWT).

He et al. (2017), "Deep Semantic Role Labeling": word vectors and a predicate indicator, a stack of LSTMs that read in
alternating directions with highway connections, a softmax over BIO tags, and a Viterbi search for the best valid ones.
Differs: four layers in place of eight, and the highway is around the layer, not in its recurrence, so that PyTorch's
LSTM can be used. Peters et al. (2018) add ELMo to the word vectors, at the input only.
"""

from collections import Counter
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from _common import FrozenLayers, WordFeatures, Words, compare, make_batches, make_parser, pad, train
from _records import Field, check_parts, read_parts
from torch import Tensor, nn

BATCH_SIZE = 64  # frames
WORD_WIDTH, PREDICATE_WIDTH = 100, 32
LSTM_WIDTH, N_LSTMS = 160, 4
IMPOSSIBLE = -1e9
NOT_SCORED = ("V", "C-V")  # the predicate itself is given
Argument = Tuple[str, Tuple[Tuple[int, int], ...]]  # its role, and start and end of each of its parts


class Frame(NamedTuple):
    """One predicate of a sentence, and a BIO tag for each word: B-ARG0, I-ARG0, O, ..."""

    words: Tuple[str, ...]
    predicate: int
    tags: Tuple[str, ...]


def read_frames(sentence: Field) -> List[Frame]:
    """A sentence has a frame for each of its predicates."""
    words = sentence["words"].as_words()
    return [
        Frame(words, frame["predicate"].as_number(0, len(words) - 1), read_tags(frame["tags"], len(words)))
        for frame in sentence["frames"].as_list()
    ]


def read_tags(tags: Field, n_words: int) -> Tuple[str, ...]:
    """RETURNS (Tuple[str, ...]): Valid BIO tags, one for each word."""
    found = tags.as_words(n_words)
    for before, tag, field in zip(("O", *found), found, tags.as_list()):
        is_inside = tag[:2] == "I-" and before[:2] in ("B-", "I-") and before[2:] == tag[2:]
        if not (tag == "O" or is_inside or tag[:2] == "B-" and tag[2:]):
            field.fail("'O', 'B-ROLE', or 'I-ROLE' after a tag of the same role")
    return found


class HighwayLSTM(nn.Module):
    """LSTMs that read forward, backward, forward, ...; a gate passes on the input of a layer or its output."""

    def __init__(self, n_in: int, width: int, n_layers: int) -> None:
        super().__init__()
        widths = [n_in] + [width] * (n_layers - 1)
        self.lstms = nn.ModuleList(nn.LSTM(n, width, batch_first=True) for n in widths)
        self.gates = nn.ModuleList(nn.Linear(n, width) for n in widths)
        self.carries = nn.ModuleList(nn.Linear(n, width, bias=False) for n in widths)
        self.dropout = nn.Dropout(0.1)

    def forward(self, rows: Tensor, mask: Tensor) -> Tensor:
        """rows (Tensor): Shape (B, S, n_in). RETURNS (Tensor): Shape (B, S, width)."""
        steps = torch.arange(mask.shape[1])
        back = (mask.sum(dim=1, keepdim=True) - 1 - steps) % mask.shape[1]  # (B, S): n-1 ... 0, then padding
        for number, (lstm, gate, carry) in enumerate(zip(self.lstms, self.gates, self.carries)):
            outputs = lstm(rows)[0] if number % 2 == 0 else reorder(lstm(reorder(rows, back))[0], back)
            share = torch.sigmoid(gate(rows))
            rows = self.dropout(share * outputs + (1 - share) * carry(rows))
        return rows


def reorder(rows: Tensor, places: Tensor) -> Tensor:
    """rows (Tensor): Shape (B, S, width). places (Tensor): Shape (B, S). RETURNS (Tensor): rows[b, places[b]]."""
    return rows.gather(1, places.unsqueeze(2).expand(-1, -1, rows.shape[2]))


class RoleLabeller(nn.Module):
    """Scores of all tags for each word of a frame."""

    def __init__(self, tags: Sequence[str], layers: Optional[FrozenLayers]) -> None:
        super().__init__()
        self.tags, self.layers = list(tags), layers
        self.ids = {tag: i for i, tag in enumerate(tags)}
        self.words = WordFeatures(WORD_WIDTH)
        self.elmo = layers.new_mixes() if layers else None
        elmo_width = self.elmo.output_width if self.elmo else 0
        self.predicate = nn.Embedding(2, PREDICATE_WIDTH)
        self.lstm = HighwayLSTM(WORD_WIDTH + elmo_width + PREDICATE_WIDTH, LSTM_WIDTH, N_LSTMS)
        self.scores = nn.Linear(LSTM_WIDTH, len(tags))
        self.dropout = nn.Dropout(0.3)

    def forward(self, frames: Sequence[Frame]) -> Tuple[Tensor, Tensor]:
        """RETURNS (Tuple[Tensor, Tensor]): Scores (B, S, tags) and mask (B, S)."""
        sentences = [frame.words for frame in frames]
        mask = pad([torch.ones(len(words), dtype=torch.bool) for words in sentences])
        is_predicate = nn.functional.one_hot(torch.tensor([frame.predicate for frame in frames]), mask.shape[1])
        parts = [self.dropout(self.words(sentences)), self.predicate(is_predicate)]
        if self.elmo is not None and self.layers is not None:
            parts += self.elmo.mix(*self.layers(sentences)).representations  # one (B, S, D)
        return self.scores(self.lstm(torch.cat(parts, dim=2), mask)), mask

    def loss(self, frames: Sequence[Frame]) -> Tensor:
        """RETURNS (Tensor): Mean cross entropy of the tags."""
        scores, mask = self(frames)
        wanted = torch.tensor([self.ids.get(tag, self.ids["O"]) for frame in frames for tag in frame.tags])
        return nn.functional.cross_entropy(scores[mask], wanted)

    def predict(self, frames: Sequence[Frame]) -> List[List[str]]:
        """RETURNS (List[List[str]]): The best valid tags of each frame."""
        scores, mask = self(frames)
        starts, transitions = self.constraints()
        paths = viterbi(scores, mask, starts, transitions)
        return [[self.tags[i] for i in path[: len(frame.words)]] for path, frame in zip(paths.tolist(), frames)]

    def constraints(self) -> Tuple[Tensor, Tensor]:
        """RETURNS (Tuple[Tensor, Tensor]): 0 or IMPOSSIBLE for first tags (tags,) and pairs of tags (tags, tags)."""
        starts, transitions = torch.zeros(len(self.tags)), torch.zeros(len(self.tags), len(self.tags))
        for tag, i in self.ids.items():
            if tag.startswith("I-"):  # only after B- or I- of the same role
                before = [self.ids[first + tag[2:]] for first in ("B-", "I-") if first + tag[2:] in self.ids]
                starts[i] = IMPOSSIBLE
                transitions[:, i] = IMPOSSIBLE
                transitions[before, i] = 0.0
        return starts, transitions


def viterbi(scores: Tensor, mask: Tensor, starts: Tensor, transitions: Tensor) -> Tensor:
    """The path with the highest sum of scores.

    scores (Tensor): Shape (B, S, tags). mask (Tensor): Shape (B, S). starts, transitions (Tensor): See `constraints`.
    RETURNS (Tensor): Shape (B, S), tags; beyond a sentence its last tag is repeated.
    """
    best = scores[:, 0] + starts  # (B, tags): of the paths that end in each tag
    stay = torch.arange(scores.shape[2]).expand_as(best)
    backpointers: List[Tensor] = []
    for t in range(1, scores.shape[1]):
        total, previous = (best.unsqueeze(2) + transitions).max(dim=1)  # (B, tags)
        is_word = mask[:, t : t + 1]
        best = torch.where(is_word, total + scores[:, t], best)
        backpointers.append(torch.where(is_word, previous, stay))
    path = [best.argmax(dim=1)]
    for previous in reversed(backpointers):
        path.append(previous.gather(1, path[-1].unsqueeze(1)).squeeze(1))
    return torch.stack(path[::-1], dim=1)


def find_arguments(tags: Sequence[str]) -> Set[Argument]:
    """RETURNS (Set[Argument]): Those of a frame. C-X continues the X before it, as in the scorer of CoNLL-2005."""
    found: List[Tuple[str, List[Tuple[int, int]]]] = []
    for start in [i for i, tag in enumerate(tags) if tag.startswith("B-")]:
        role, end = tags[start][2:], start + 1
        while end < len(tags) and tags[end] == f"I-{role}":
            end += 1
        continued = [spans for name, spans in found if role == f"C-{name}"]
        if continued:
            continued[-1].append((start, end))
        else:
            found.append((role, [(start, end)]))
    return {(role, tuple(spans)) for role, spans in found if role not in NOT_SCORED}


def span_f1(model: RoleLabeller, frames: Sequence[Frame]) -> float:
    """RETURNS (float): F1 in percent of arguments whose role and spans are all right, over all frames."""
    n_right = n_found = n_wanted = 0
    for batch in make_batches(frames, 2 * BATCH_SIZE, lambda frame: len(frame.words)):
        for frame, tags in zip(batch, model.predict(batch)):
            found, wanted = find_arguments(tags), find_arguments(frame.tags)
            n_right, n_found, n_wanted = n_right + len(found & wanted), n_found + len(found), n_wanted + len(wanted)
    return 200 * n_right / max(n_found + n_wanted, 1)


def main() -> None:
    """Read the data, compute the layers once, train both conditions."""
    parser = make_parser("Semantic role labelling with and without ELMo", "srl/ewt-propbank", epochs=8, every=4)
    arguments = parser.parse_args()
    frames = read_parts(arguments.data, read_frames, arguments.limit, arguments.every)
    check_parts(frames, "frames")
    texts: List[Words] = [frame.words for part in frames.values() for frame in part]
    layers = None if arguments.without_elmo else FrozenLayers(arguments.bilm, texts)
    counts = Counter(tag for frame in frames["train"] for tag in frame.tags)
    tags = ["O"] + sorted(counts.keys() - {"O"})
    print(f"{len(frames['train'])} frames, {len(tags)} tags")

    def run(with_elmo: bool) -> Dict[str, float]:
        model = RoleLabeller(tags, layers if with_elmo else None)
        train(
            model,
            lambda: make_batches(frames["train"], BATCH_SIZE, lambda frame: len(frame.words)),
            model.loss,
            lambda: span_f1(model, frames["dev"]),
            epochs=arguments.epochs,
            rate=3e-3,
        )
        with torch.no_grad():
            return {"span F1, test": span_f1(model.eval(), frames["test"])}

    compare(arguments, run)


if __name__ == "__main__":
    main()
