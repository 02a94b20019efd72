"""Entailment: does a sentence follow from another, contradict it, or neither (SNLI with counterfactual pairs, SICK).

ESIM of Chen et al. (2017), "Enhanced LSTM for Natural Language Inference": a BiLSTM encodes both sentences, each word
attends to the other sentence, and a second BiLSTM composes what was compared. Peters et al. (2018, sec. 5.2) put ELMo
at the input and at the output of the first BiLSTM, so that the attention sees it, too: two mixes of the same layers.
Differs: learned vectors of word, prefix, suffix and shape in place of GloVe, narrower layers.
Breaking NLI (Glockner et al. 2018) is the stress test: one word of an SNLI premise was changed.
`--n-grams` scores what has to be beaten: no network, but naive Bayes and logistic regression on n-grams of a pair.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from _common import FrozenLayers, WordFeatures, Words, compare, make_batches, make_parser, pad, train
from _records import Field, read_all, read_items
from torch import Tensor, nn

from spacy_elmo.nn import BiLSTM

LABELS = ("entailment", "neutral", "contradiction")
TASKS = ("snli-cad", "sick")
STRESS_TEST, STRESSED_TASK = "breaking-nli", "snli-cad"
BATCH_SIZE = 32  # pairs
WORD_WIDTH, LSTM_WIDTH = 100, 100  # of one direction


class Pair(NamedTuple):
    """Two sentences and the place of their label in LABELS."""

    premise: Tuple[str, ...]
    hypothesis: Tuple[str, ...]
    label: int


def read_pairs(line: Field) -> List[Pair]:
    """A line has one pair."""
    premise, hypothesis = line["premise_words"].as_words(), line["hypothesis_words"].as_words()
    return [Pair(premise, hypothesis, line["label"].as_label(LABELS))]


class ESIM(nn.Module):
    """Scores of the three labels for a pair."""

    def __init__(self, layers: Optional[FrozenLayers]) -> None:
        super().__init__()
        self.layers = layers
        self.words = WordFeatures(WORD_WIDTH)
        self.elmo = layers.new_mixes(2) if layers else None
        elmo_width = self.elmo.output_width if self.elmo else 0
        encoded_width, composed_width = 2 * LSTM_WIDTH + elmo_width, 2 * LSTM_WIDTH
        self.encoder = BiLSTM(WORD_WIDTH + elmo_width, LSTM_WIDTH)
        self.compare = nn.Linear(4 * encoded_width, LSTM_WIDTH)
        self.composer = BiLSTM(LSTM_WIDTH, LSTM_WIDTH)
        self.hidden = nn.Linear(4 * composed_width, LSTM_WIDTH)
        self.scores = nn.Linear(LSTM_WIDTH, len(LABELS))
        self.dropout = nn.Dropout(0.3)

    def forward(self, pairs: Sequence[Pair]) -> Tensor:
        """RETURNS (Tensor): Shape (B, 3)."""
        encoded, mask = self.encode([pair.premise for pair in pairs] + [pair.hypothesis for pair in pairs])
        premises, hypotheses = encoded.chunk(2)  # (B, S, encoded width) each
        of_premises, of_hypotheses = mask.chunk(2)
        similar = premises @ hypotheses.transpose(1, 2)  # (B, S, S)
        compared = torch.cat(
            [
                enhance(premises, attend(similar, hypotheses, of_hypotheses)),
                enhance(hypotheses, attend(similar.transpose(1, 2), premises, of_premises)),
            ]
        )  # (2B, S, 4 * encoded width)
        composed = self.composer(self.dropout(torch.relu(self.compare(compared))), mask)
        pooled = torch.cat([mean_pool(composed, mask), max_pool(composed, mask)], dim=1)  # (2B, 2 * composed width)
        together = torch.cat(pooled.chunk(2), dim=1)  # (B, 4 * composed width)
        return self.scores(self.dropout(torch.tanh(self.hidden(self.dropout(together)))))

    def encode(self, sentences: Sequence[Words]) -> Tuple[Tensor, Tensor]:
        """RETURNS (Tuple[Tensor, Tensor]): Shape (B, S, encoded width), and the mask (B, S)."""
        mask = pad([torch.ones(len(words), dtype=torch.bool) for words in sentences])
        inputs, beside = [self.dropout(self.words(sentences))], []
        if self.elmo is not None and self.layers is not None:
            at_input, at_output = self.elmo.mix(*self.layers(sentences)).representations
            inputs, beside = [*inputs, at_input], [at_output]
        encoded = self.encoder(torch.cat(inputs, dim=2), mask)
        return torch.cat([self.dropout(encoded), *beside], dim=2), mask

    def loss(self, pairs: Sequence[Pair]) -> Tensor:
        """RETURNS (Tensor): Mean cross entropy."""
        return nn.functional.cross_entropy(self(pairs), torch.tensor([pair.label for pair in pairs]))


def attend(similar: Tensor, other: Tensor, mask: Tensor) -> Tensor:
    """The words of the other sentence, weighed by their similarity.

    similar (Tensor): Shape (B, S, S'). other (Tensor): Shape (B, S', width). mask (Tensor): Shape (B, S').
    RETURNS (Tensor): Shape (B, S, width).
    """
    return similar.masked_fill(~mask.unsqueeze(1), -1e9).softmax(dim=2) @ other


def enhance(own: Tensor, other: Tensor) -> Tensor:
    """Enhancement of local inference. RETURNS (Tensor): Both, their difference and product: four times as wide."""
    return torch.cat([own, other, own - other, own * other], dim=2)


def mean_pool(rows: Tensor, mask: Tensor) -> Tensor:
    """rows (Tensor): Shape (B, S, width). RETURNS (Tensor): Shape (B, width)."""
    return (rows * mask.unsqueeze(2)).sum(dim=1) / mask.sum(dim=1, keepdim=True)


def max_pool(rows: Tensor, mask: Tensor) -> Tensor:
    """rows (Tensor): Shape (B, S, width). RETURNS (Tensor): Shape (B, width)."""
    return rows.masked_fill(~mask.unsqueeze(2), -1e9).amax(dim=1)


def accuracy(model: ESIM, pairs: Sequence[Pair], label: Optional[str] = None) -> float:
    """label (Optional[str]): Only pairs with this label. RETURNS (float): Right answers in percent."""
    wanted = [pair for pair in pairs if label is None or pair.label == LABELS.index(label)]
    n_right = 0
    for batch in make_batches(wanted, 4 * BATCH_SIZE, length_of):
        n_right += int((model(batch).argmax(dim=1) == torch.tensor([pair.label for pair in batch])).sum())
    return 100 * n_right / max(len(wanted), 1)


def length_of(pair: Pair) -> int:
    """RETURNS (int): What batches are sorted by."""
    return max(len(pair.premise), len(pair.hypothesis))


def hypothesis_features(pair: Pair) -> List[str]:
    """RETURNS (List[str]): Words and pairs of words of the hypothesis alone: what the label owes to the annotators."""
    words = [word.lower() for word in pair.hypothesis]
    return [*words, *map(" ".join, zip(words, words[1:]))]


def difference_features(pair: Pair) -> List[str]:
    """RETURNS (List[str]): The words that only one of both sentences has."""
    premise, hypothesis = ({word.lower() for word in words} for words in pair[:2])
    return [*(f"- {word}" for word in premise - hypothesis), *(f"+ {word}" for word in hypothesis - premise)]


def pair_features(pair: Pair) -> List[str]:
    """As Bowman et al. (2015, sec. 3.2): these words, pairs of them, and how many words and lengths differ."""
    premise, hypothesis = ({word.lower() for word in words} for words in pair[:2])
    removed, added, n_shared = premise - hypothesis, hypothesis - premise, len(premise & hypothesis)
    sizes = {
        "removed": min(len(removed), 8),
        "added": min(len(added), 8),
        "longer": max(-8, min(8, len(pair.hypothesis) - len(pair.premise))),
        "shared, premise": round(5 * n_shared / len(premise)),
        "shared, hypothesis": round(5 * n_shared / len(hypothesis)),
    }
    crossed = [f"{word} > {other}" for word in removed for other in added]
    return [*difference_features(pair), *crossed, *(f"{name} {size}" for name, size in sizes.items())]


FEATURES = {"hypothesis": hypothesis_features, "differing words": difference_features, "pair": pair_features}


def score_n_grams(task: str, pairs: Dict[str, List[Pair]]) -> None:
    """Print the accuracy of both classifiers on each kind of features, with the settings best on the dev part."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import MultinomialNB

    labels = {name: [pair.label for pair in part] for name, part in pairs.items()}
    for kind, features in FEATURES.items():
        n_grams = TfidfVectorizer(analyzer=features).fit(pairs["train"])
        rows = {name: n_grams.transform(part) for name, part in pairs.items()}
        systems = {
            "naive Bayes": [MultinomialNB(alpha=alpha) for alpha in (0.03, 0.1, 0.3, 1.0)],
            "regression": [LogisticRegression(C=c, max_iter=400) for c in (1.0, 10.0, 100.0)],
        }
        for name, models in systems.items():
            fitted = [model.fit(rows["train"], labels["train"]) for model in models]
            best = max(fitted, key=lambda model: model.score(rows["dev"], labels["dev"]))
            print(f"{task}, test  {name}, {kind:16} {100 * best.score(rows['test'], labels['test']):6.2f}", flush=True)


def main() -> None:
    """For each data set: read it, compute the layers once, train both conditions."""
    parser = make_parser("Entailment with and without ELMo", "nli", epochs=10)
    parser.add_argument("--n-grams", action="store_true", help="train no network, but classifiers on n-grams")
    arguments = parser.parse_args()
    data = read_all(arguments, dict.fromkeys(TASKS, read_pairs), "pairs")
    if arguments.n_grams:
        for task, pairs in data.items():
            score_n_grams(task, pairs)
        return
    stress = arguments.data / STRESS_TEST
    if STRESSED_TASK in data and stress.is_dir():
        data[STRESSED_TASK]["stress"] = read_items(stress / "test.jsonl.gz", read_pairs, arguments.limit)
    for task, pairs in data.items():
        texts: List[Words] = [text for part in pairs.values() for pair in part for text in pair[:2]]
        layers = None if arguments.without_elmo else FrozenLayers(arguments.bilm, texts)
        print(f"{task}: {len(pairs['train'])} pairs")

        def run(with_elmo: bool, task: str = task, pairs: Any = pairs, layers: Any = layers) -> Dict[str, float]:
            model = ESIM(layers if with_elmo else None)
            train(
                model,
                lambda: make_batches(pairs["train"], BATCH_SIZE, length_of),
                model.loss,
                lambda: accuracy(model, pairs["dev"]),
                epochs=arguments.epochs,
                rate=2e-3,
            )
            model.eval()
            with torch.no_grad():
                scores = {f"{task}, test": accuracy(model, pairs["test"])}
                for label in ("entailment", "contradiction") if "stress" in pairs else ():
                    scores[f"{STRESS_TEST}, {label}"] = accuracy(model, pairs["stress"], label)
            return scores

        compare(arguments, run)


if __name__ == "__main__":
    main()
