"""Coreference: which earlier mention is meant (LitBank, novels), which of two names a pronoun means (GAP, Wikipedia).

Lee et al. (2017), "End-to-end Neural Coreference Resolution": a BiLSTM over each sentence, a vector for each span (its
first and last word, an attended head, its width), a score for each antecedent and 0 for a dummy, "no antecedent"; the
loss is the marginal likelihood of all right antecedents. Peters et al. (2018, sec. 4) put ELMo at the input of the
BiLSTM. Differs: mentions are GIVEN, singletons included (on GAP the two names); pairs have features of matching words.
"""

import math
from collections import Counter
from itertools import accumulate
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from _common import FrozenLayers, WordFeatures, Words, compare, make_batches, make_parser, pad, train
from _records import Field, check_distinct, read_all, read_sentences
from torch import Tensor, nn

from spacy_elmo.nn import BiLSTM

WORD_WIDTH, LSTM_WIDTH = 100, 100  # LSTM: of one direction
SPAN_WIDTH, PAIR_WIDTH, N_BUCKETS = 150, 100, 12
MAX_ANTECEDENTS = 100  # the nearest ones
GAP_LABELS = ("A", "B", "neither")
Clusters = Sequence[Set[int]]


class Text(NamedTuple):
    """Mentions as first and last word of the text, the entity of each, and who may be the antecedent of whom."""

    sentences: Tuple[Tuple[str, ...], ...]
    mentions: Tuple[Tuple[int, int], ...]
    entities: Tuple[int, ...]
    anaphors: Tuple[Tuple[int, Sequence[int]], ...]  # mentions that may have an antecedent, and their candidates

    @property
    def words(self) -> Words:
        return [word for sentence in self.sentences for word in sentence]


def read_litbank(line: Field) -> List[Text]:
    """All mentions in their order; the candidates of each are the ones before it. None without mentions."""
    words = line["words"].as_words()
    sentences, clusters = read_sentences(line["sentences"], words), line["clusters"].as_list()
    spans = [(mention.as_span(len(words)), i) for i, cluster in enumerate(clusters) for mention in cluster.as_list()]
    mentions, entities = zip(*sorted(spans)) if spans else ((), ())
    check_distinct(line["clusters"], mentions)
    anaphors = tuple((i, range(max(0, i - MAX_ANTECEDENTS), i)) for i in range(len(mentions)))
    return [Text(sentences, mentions, entities, anaphors)] if anaphors else []


def read_gap(line: Field) -> List[Text]:
    """Three mentions: A, B and the pronoun. The candidates of the pronoun are A and B; either may follow it."""
    words = line["words"].as_words()
    ends = [i + 1 for i, word in enumerate(words) if word in (".", "!", "?") or i == len(words) - 1]
    sentences = tuple(words[first:end] for first, end in zip([0, *ends], ends))
    mentions = tuple(line[name].as_span(len(words)) for name in ("A", "B", "pronoun"))
    return [Text(sentences, mentions, (0, 1, line["label"].as_label(GAP_LABELS)), ((2, (0, 1)),))]


class MentionRanker(nn.Module):
    """Scores of the candidates of each anaphor, behind the 0 of the dummy."""

    def __init__(self, layers: Optional[FrozenLayers]) -> None:
        super().__init__()
        self.layers = layers
        self.words = WordFeatures(WORD_WIDTH)
        self.elmo = layers.new_mixes() if layers else None
        input_width = WORD_WIDTH + (self.elmo.output_width if self.elmo else 0)
        self.lstm, self.head = BiLSTM(input_width, LSTM_WIDTH), nn.Linear(2 * LSTM_WIDTH, 1)
        self.span = nn.Linear(4 * LSTM_WIDTH + input_width, SPAN_WIDTH)
        self.width = nn.Embedding(N_BUCKETS, SPAN_WIDTH)
        self.of_anaphor = nn.Linear(SPAN_WIDTH, PAIR_WIDTH)  # these four add up to one layer over all of a pair
        self.of_candidate = nn.Linear(SPAN_WIDTH, PAIR_WIDTH, bias=False)
        self.of_product = nn.Linear(SPAN_WIDTH, PAIR_WIDTH, bias=False)
        self.of_features = nn.EmbeddingBag(4 * N_BUCKETS, PAIR_WIDTH, mode="sum")
        self.score = nn.Linear(PAIR_WIDTH, 1)
        self.dropout = nn.Dropout(0.5)

    def forward(self, texts: Sequence[Text]) -> Tensor:
        """RETURNS (Tensor): Shape (anaphors of all texts, 1 + most candidates), -inf behind the candidates of each."""
        spans = self.encode_spans(texts)  # (mentions of all texts, span width)
        starts = starts_of([len(text.mentions) for text in texts])
        pairs = [(n + i, n + j) for n, text in zip(starts, texts) for i, others in text.anaphors for j in others]
        anaphors, candidates = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T  # (pairs,) each
        hidden = self.of_anaphor(spans)[anaphors] + self.of_candidate(spans)[candidates]
        hidden = hidden + self.of_product(spans[anaphors] * spans[candidates])  # (pairs, pair width)
        hidden = hidden + self.of_features(find_features(texts, anaphors, candidates))
        scores = self.score(torch.relu(hidden)).squeeze(1)  # (pairs,)
        rows = scores.split([len(others) for text in texts for _, others in text.anaphors])
        return nn.utils.rnn.pad_sequence([torch.cat([torch.zeros(1), row]) for row in rows], True, -math.inf)

    def encode_spans(self, texts: Sequence[Text]) -> Tensor:
        """RETURNS (Tensor): Shape (mentions of all texts, span width)."""
        sentences = [words for text in texts for words in text.sentences]
        mask = pad([torch.ones(len(words), dtype=torch.bool) for words in sentences])
        parts = [self.dropout(self.words(sentences))]
        if self.elmo is not None and self.layers is not None:
            parts += self.elmo.mix(*self.layers(sentences)).representations  # one (B, S, D)
        inputs = torch.cat(parts, dim=2)
        encoded = self.lstm(inputs, mask)
        inputs, encoded = inputs[mask], self.dropout(encoded)[mask]  # (words of all texts, width)
        starts = starts_of([len(text.words) for text in texts])
        first, last = torch.tensor([(n + a, n + b) for n, text in zip(starts, texts) for a, b in text.mentions]).T
        steps = torch.arange(int((last - first).max()) + 1)
        places = torch.minimum(first.unsqueeze(1) + steps, last.unsqueeze(1))  # (mentions, longest mention)
        shares = self.head(encoded).squeeze(1)[places].masked_fill(steps > (last - first).unsqueeze(1), -math.inf)
        head = (shares.softmax(dim=1).unsqueeze(1) @ inputs[places]).squeeze(1)  # (mentions, input width)
        spans = self.span(torch.cat([encoded[first], encoded[last], head], dim=1))
        return self.dropout(torch.relu(spans + self.width(bucket(last - first))))

    def loss(self, texts: Sequence[Text]) -> Tensor:
        """RETURNS (Tensor): Mean of -log P(any right antecedent); the dummy is right if there is none."""
        log_probs = self(texts).log_softmax(dim=1)
        right = [[one.entities[i] == one.entities[j] for j in others] for one in texts for i, others in one.anaphors]
        is_right = pad([torch.tensor([not any(row), *row]) for row in right])  # as the scores
        return -log_probs.masked_fill(~is_right, -math.inf).logsumexp(dim=1).mean()

    def predict(self, texts: Sequence[Text]) -> List[List[Optional[int]]]:
        """RETURNS (List[List[Optional[int]]]): For each text and anaphor, the best candidate or None."""
        best = iter(self(texts).argmax(dim=1).tolist())
        return [[([None, *others])[next(best)] for _, others in text.anaphors] for text in texts]


def starts_of(lengths: Sequence[int]) -> List[int]:
    """RETURNS (List[int]): Where each begins when all are concatenated."""
    return [0, *accumulate(lengths)][:-1]


def bucket(numbers: Tensor) -> Tensor:
    """RETURNS (Tensor): 0, 1, 2-3, 4-7, 8-15, ... become 0, 1, 2, 3, 4, ..."""
    return (numbers + 0.5).clamp(min=0.5).log2().add(1).floor().long().clamp(0, N_BUCKETS - 1)


def find_features(texts: Sequence[Text], anaphors: Tensor, candidates: Tensor) -> Tensor:
    """Distance in words and its direction, in sentences, what matches. RETURNS (Tensor): Shape (pairs, 3)."""
    # Of each mention: first and last word, sentence, a number for its words, one for the last.
    rows, numbers = [], {}
    for text in texts:
        words = [word.lower() for word in text.words]
        sentence_of = [i for i, sentence in enumerate(text.sentences) for _ in sentence]
        for first, last in text.mentions:
            same = [numbers.setdefault(tuple(words[start : last + 1]), len(numbers)) for start in (first, last)]
            rows.append([first, last, sentence_of[first], *same])
    table = torch.tensor(rows)  # (mentions, 5)
    by_first, by_last, by_sentence, other_words, other_last = (table[anaphors] - table[candidates]).T  # (pairs,) each
    distance = bucket(by_first.abs()) + N_BUCKETS * (by_first < 0)
    match = (other_words == 0) + 2 * (other_last == 0) + 4 * ((by_first >= 0) & (by_last <= 0))  # 4: it is inside
    return torch.stack([distance, bucket(by_sentence.abs()) + 2 * N_BUCKETS, match + 3 * N_BUCKETS], dim=1)


def find_clusters(text: Text, antecedents: Sequence[Optional[int]]) -> List[Set[int]]:
    """RETURNS (List[Set[int]]): Mentions that are linked, those without a link as clusters of one."""
    cluster_of: Dict[int, Set[int]] = {}
    for (i, _), antecedent in zip(text.anaphors, antecedents):
        cluster_of[i] = set() if antecedent is None else cluster_of[antecedent]
        cluster_of[i].add(i)
    return list({id(cluster): cluster for cluster in cluster_of.values()}.values())


def muc(wanted: Clusters, found: Clusters) -> Tuple[float, int]:
    """Recall of links, right and all; both are partitions of the same mentions (Vilain et al. 1995)."""
    cluster_of = {mention: i for i, cluster in enumerate(found) for mention in cluster}
    right = sum(len(cluster) - len({cluster_of[mention] for mention in cluster}) for cluster in wanted)
    return right, sum(len(cluster) - 1 for cluster in wanted)


def b_cubed(wanted: Clusters, found: Clusters) -> Tuple[float, int]:
    """Recall of each mention's cluster, the sum of all and their number (Bagga and Baldwin 1998)."""
    right = sum(len(one & other) ** 2 / len(one) for one in wanted for other in found)
    return right, sum(len(cluster) for cluster in wanted)


def ceaf(wanted: Clusters, found: Clusters) -> Tuple[float, int]:
    """Similarity (phi 4) of clusters in the best assignment, and the number of the wanted ones (Luo 2005)."""
    gains = [[2 * len(one & other) / (len(one) + len(other)) for other in found] for one in wanted]
    return best_assignment(gains), len(wanted)


def best_assignment(gains: Sequence[Sequence[float]]) -> float:
    """RETURNS (float): Highest sum of gains (0 or more) with another column for each row: longest augmenting paths."""
    # Only gains above 0, and a column -1 - i where row i gains nothing, so that few edges are searched.
    edges = [{-1 - i: 0.0, **{j: gain for j, gain in enumerate(row) if gain > 0}} for i, row in enumerate(gains)]
    row_at: Dict[int, int] = {}  # of the columns that are assigned
    for new_row in range(len(gains)):
        best, row_before, queue = {}, {}, [(new_row, 0.0)]  # alternating paths: gain by column, and gain up to a row
        for row, total in queue:
            for j, gain in edges[row].items():
                if total + gain > best.get(j, -math.inf) + 1e-9:
                    best[j], row_before[j] = total + gain, row
                    queue += [(row_at[j], best[j] - edges[row_at[j]][j])] if j in row_at else []
        column_of = {row: j for j, row in row_at.items()}
        end: Optional[int] = max((j for j in best if j not in row_at), key=best.__getitem__)
        while end is not None:
            row_at[end], end = row_before[end], column_of.get(row_before[end])
    return sum(edges[row][j] for j, row in row_at.items())


def litbank_scores(model: MentionRanker, texts: Sequence[Text]) -> Dict[str, float]:
    """RETURNS (Dict[str, float]): The mean of three (CoNLL score), then F1 over all texts by each metric."""
    pairs, scores = [], {}
    for text in texts:
        wanted = [{i for i, e in enumerate(text.entities) if e == entity} for entity in sorted(set(text.entities))]
        pairs.append((wanted, find_clusters(text, model.predict([text])[0])))
    for metric in (muc, b_cubed, ceaf):
        recalls, precisions = zip(*((metric(wanted, found), metric(found, wanted)) for wanted, found in pairs))
        r, p = (sum(right) / max(sum(n), 1) for right, n in (zip(*recalls), zip(*precisions)))
        scores[metric.__name__] = 200 * r * p / max(r + p, 1e-9)
    return {"CoNLL": sum(scores.values()) / 3, **scores}


def gap_scores(model: MentionRanker, texts: Sequence[Text]) -> Dict[str, float]:
    """RETURNS (Dict[str, float]): F1 of the pairs of pronoun and name, of all pronouns and by gender."""
    n_right, n_both = Counter(), Counter()  # both: found and wanted pairs
    for batch in make_batches(texts, 32, lambda one: len(one.words)):
        for text, (found,) in zip(batch, model.predict(batch)):
            wanted, pronoun = (0, 1, None)[text.entities[2]], text.words[text.mentions[2][0]].lower()
            for part in ("F1", "feminine" if pronoun in ("she", "her", "hers") else "masculine"):
                n_right[part] += found == wanted is not None
                n_both[part] += (found is not None) + (wanted is not None)
    return {part: 200 * n_right[part] / max(n_both[part], 1) for part in ("F1", "feminine", "masculine")}


def main() -> None:
    """For each data set: read it, compute the layers once, train both conditions."""
    arguments = make_parser("Coreference with and without ELMo", "coref", epochs=12).parse_args()
    tasks = {"litbank": (read_litbank, litbank_scores, 1), "gap": (read_gap, gap_scores, 16)}  # texts of a batch
    for task, texts in read_all(arguments, {name: task[0] for name, task in tasks.items()}, "anaphors").items():
        sentences = [words for part in texts.values() for text in part for words in text.sentences]
        layers = None if arguments.without_elmo else FrozenLayers(arguments.bilm, sentences)
        print(f"{task}: {len(texts['train'])} texts, {sum(len(text.anaphors) for text in texts['train'])} anaphors")

        def run(with_elmo: bool, task: str = task, texts: Any = texts, layers: Any = layers) -> Dict[str, float]:
            model, (_, scores_of, batch_size) = MentionRanker(layers if with_elmo else None), tasks[task]
            train(
                model,
                lambda: make_batches(texts["train"], batch_size, lambda one: len(one.words)),
                model.loss,
                lambda: next(iter(scores_of(model, texts["dev"]).values())),
                epochs=arguments.epochs,
                rate=2e-3,
            )
            with torch.no_grad():
                return {f"{task}, {name}": score for name, score in scores_of(model.eval(), texts["test"]).items()}

        compare(arguments, run)


if __name__ == "__main__":
    main()
