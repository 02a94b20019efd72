"""Question answering: which words of a paragraph answer a question (SQuAD-style; SquadShifts "new Wikipedia").

BiDAF of Seo et al. (2017), "Bidirectional Attention Flow for Machine Comprehension", with the self-attention of Clark
and Gardner (2018): a BiLSTM encodes paragraph and question, each word of the paragraph attends to the question and
then to the paragraph, and two further BiLSTMs score it as first and as last word of the answer. Peters et al. (2018,
sec. 4) put ELMo at the input and at the output of the first BiLSTM: two mixes of the same layers.
Differs: small LSTMs in place of GRUs, no pretrained vectors, and a binary exact-match feature (Chen et al. 2017),
without which a small part of the data teaches little. The training set has 6,044 questions, that of SQuAD 87,599, so
the scores are lower than the published ones. SQuAD's development set is a second test set, on other articles.
"""

import re
import string
from collections import Counter
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from _common import FrozenLayers, WordFeatures, Words, compare, make_batches, make_parser, pad, train
from _records import Field, check_parts, read_all, read_items
from nli import attend
from torch import Tensor, nn

from spacy_elmo.nn import BiLSTM

DATA, CROSS_DOMAIN = "squadshifts-newwiki", "squad-v1.1-dev"
BATCH_SIZE = 6  # paragraphs, of about five questions each
MAX_WORDS = 250  # of a paragraph in training, which bounds memory; longer ones are cut
MAX_ANSWER = 17  # words, as in Clark and Gardner (2018)
WORD_WIDTH, LSTM_WIDTH = 100, 64  # of one direction
LEARNING_RATE = 2e-3
IMPOSSIBLE = -1e9


class Question(NamedTuple):
    """A question, the texts of its answers (one of each annotator) and their first and last words."""

    words: Tuple[str, ...]
    answers: Tuple[str, ...]
    spans: Tuple[Tuple[int, int], ...]


class Paragraph(NamedTuple):
    """A text, its words, their characters [start, end) in the text, and the questions about it."""

    text: str
    words: Tuple[str, ...]
    offsets: Tuple[Tuple[int, int], ...]
    questions: Tuple[Question, ...]


def read_paragraphs(line: Field) -> List[Paragraph]:
    """A line has one paragraph, which is left out if it has no questions."""
    text, words = line["context"].as_text(), line["words"].as_words()
    offsets = tuple(offset.as_span(len(text) + 1) for offset in line["offsets"].as_list(len(words)))
    questions = tuple(read_question(asked, len(words)) for asked in line["qas"].as_list())
    return [Paragraph(text, words, offsets, questions)] if questions else []


def read_question(asked: Field, n_words: int) -> Question:
    """n_words (int): Of its paragraph. RETURNS (Question): With one answer or more."""
    answers = asked["answers"].as_list(least=1)
    texts = tuple(answer["text"].as_text() for answer in answers)
    spans = tuple(answer.as_span(n_words) for answer in answers)
    return Question(asked["question_words"].as_words(), texts, spans)


def cut_paragraphs(paragraphs: Sequence[Paragraph], max_words: int) -> List[Paragraph]:
    """RETURNS (List[Paragraph]): Those with questions that have an answer in the first words, cut to these."""
    found = []
    for text, words, offsets, questions in paragraphs:
        inside = [[span for span in question.spans if span[1] < max_words] for question in questions]
        kept = tuple(question._replace(spans=tuple(spans)) for question, spans in zip(questions, inside) if spans)
        found += [Paragraph(text, words[:max_words], offsets[:max_words], kept)] if kept else []
    return found


class Similarity(nn.Module):
    """Score of each pair of words: w1 . a + w2 . b + w3 . (a * b); w3 begins as a scaled dot product."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.of_a, self.of_b = nn.Linear(width, 1, bias=False), nn.Linear(width, 1, bias=False)
        self.of_both = nn.Parameter(torch.full((width,), width**-0.5))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """a (Tensor): Shape (B, S, width). b (Tensor): Shape (B, S', width). RETURNS (Tensor): Shape (B, S, S')."""
        return self.of_a(a) + self.of_b(b).transpose(1, 2) + (a * self.of_both) @ b.transpose(1, 2)


class BiDAF(nn.Module):
    """Scores of each word of a paragraph as first and as last word of the answer to each of its questions."""

    def __init__(self, layers: Optional[FrozenLayers]) -> None:
        super().__init__()
        self.layers = layers
        self.words = WordFeatures(WORD_WIDTH)
        self.elmo = layers.new_mixes(2) if layers else None
        elmo_width = self.elmo.output_width if self.elmo else 0
        encoded, width = 2 * LSTM_WIDTH + elmo_width, 2 * LSTM_WIDTH
        self.encoder = BiLSTM(WORD_WIDTH + elmo_width, LSTM_WIDTH)
        self.similarity = Similarity(encoded)
        self.merge = nn.Linear(4 * encoded + 1, width)
        self.reader = BiLSTM(width, LSTM_WIDTH)
        self.self_similarity = Similarity(width)
        self.self_merge = nn.Linear(3 * width, width)
        self.first_lstm, self.first = BiLSTM(width, LSTM_WIDTH), nn.Linear(width, 1)
        self.last_lstm, self.last = BiLSTM(2 * width, LSTM_WIDTH), nn.Linear(width, 1)
        self.dropout = nn.Dropout(0.2)

    def forward(self, paragraphs: Sequence[Paragraph]) -> Tuple[Tensor, Tensor]:
        """RETURNS (Tuple[Tensor, Tensor]): Shape (Q, S) each, for all Q questions; IMPOSSIBLE behind a paragraph."""
        owners = torch.tensor([i for i, paragraph in enumerate(paragraphs) for _ in paragraph.questions])
        texts, mask = self.encode([paragraph.words for paragraph in paragraphs])  # (B, S, encoded), once for all Q
        asked, of_asked = self.encode([question.words for question in all_questions(paragraphs)])  # (Q, S', encoded)
        texts, mask = texts[owners], mask[owners]  # (Q, S, encoded), (Q, S)
        rows = self.attend_to_question(texts, mask, asked, of_asked, find_shared(paragraphs))  # (Q, S, width)
        rows = rows + self.attend_to_self(rows, mask)
        firsts = self.first_lstm(self.dropout(rows), mask)
        lasts = self.last_lstm(self.dropout(torch.cat([rows, firsts], dim=2)), mask)
        scores = self.first(firsts).squeeze(2), self.last(lasts).squeeze(2)
        return scores[0].masked_fill(~mask, IMPOSSIBLE), scores[1].masked_fill(~mask, IMPOSSIBLE)

    def encode(self, sentences: Sequence[Words]) -> Tuple[Tensor, Tensor]:
        """RETURNS (Tuple[Tensor, Tensor]): Shape (B, S, encoded), and the mask (B, S)."""
        mask = pad([torch.ones(len(words), dtype=torch.bool) for words in sentences])
        inputs, beside = [self.dropout(self.words(sentences))], []
        if self.elmo is not None and self.layers is not None:
            at_input, at_output = self.elmo.mix(*self.layers(sentences)).representations
            inputs, beside = [*inputs, at_input], [at_output]
        return torch.cat([self.encoder(torch.cat(inputs, dim=2), mask), *beside], dim=2), mask

    def attend_to_question(self, texts: Tensor, mask: Tensor, asked: Tensor, of_asked: Tensor, exact: Tensor) -> Tensor:
        """The question for each word, and the words nearest to the question. RETURNS (Tensor): Shape (Q, S, width)."""
        similar = self.similarity(texts, asked)  # (Q, S, S')
        seen = attend(similar, asked, of_asked)  # (Q, S, encoded)
        nearest = similar.masked_fill(~of_asked.unsqueeze(1), IMPOSSIBLE).amax(dim=2, keepdim=True)  # (Q, S, 1)
        relevant = attend(nearest.transpose(1, 2), texts, mask)  # (Q, 1, encoded)
        return torch.relu(self.merge(torch.cat([texts, seen, texts * seen, texts * relevant, exact], dim=2)))

    def attend_to_self(self, rows: Tensor, mask: Tensor) -> Tensor:
        """Each word to all others but itself. RETURNS (Tensor): Shape (Q, S, width)."""
        read = self.reader(self.dropout(rows), mask)
        itself = torch.eye(rows.shape[1], dtype=torch.bool)
        other = attend(self.self_similarity(read, read).masked_fill(itself, IMPOSSIBLE), read, mask)
        return torch.relu(self.self_merge(torch.cat([read, other, read * other], dim=2)))

    def loss(self, paragraphs: Sequence[Paragraph]) -> Tensor:
        """Mean of -log p(first) - log p(last); p sums over the annotators' answers (Clark and Gardner, sec. 3)."""
        loss, spans = torch.zeros(()), [question.spans for question in all_questions(paragraphs)]
        for side, scores in enumerate(self(paragraphs)):
            is_right = torch.zeros_like(scores, dtype=torch.bool)
            for row, wanted in zip(is_right, spans):
                row[[span[side] for span in wanted]] = True
            right = scores.masked_fill(~is_right, IMPOSSIBLE).logsumexp(dim=1)  # (Q,)
            loss = loss + (scores.logsumexp(dim=1) - right).mean()
        return loss

    def predict(self, paragraphs: Sequence[Paragraph]) -> List[str]:
        """RETURNS (List[str]): The best answer to each question."""
        owners = [paragraph for paragraph in paragraphs for _ in paragraph.questions]
        spans = best_spans(*self(paragraphs)).tolist()
        return [one.text[one.offsets[first][0] : one.offsets[last][1]] for one, (first, last) in zip(owners, spans)]


def all_questions(paragraphs: Sequence[Paragraph]) -> List[Question]:
    """RETURNS (List[Question]): The questions of all paragraphs, in order."""
    return [question for paragraph in paragraphs for question in paragraph.questions]


def find_shared(paragraphs: Sequence[Paragraph]) -> Tensor:
    """RETURNS (Tensor): Shape (Q, S, 1), 1.0 for words of a paragraph that are in the question, too."""
    rows = []
    for paragraph in paragraphs:
        words = [word.lower() for word in paragraph.words]
        for question in paragraph.questions:
            asked = {word.lower() for word in question.words}
            rows.append(torch.tensor([float(word in asked) for word in words]))
    return pad(rows).unsqueeze(2)


def best_spans(firsts: Tensor, lasts: Tensor) -> Tensor:
    """The first and last word with the highest sum of scores; last is not before first, at most MAX_ANSWER words.

    firsts, lasts (Tensor): Shape (Q, S). RETURNS (Tensor): Shape (Q, 2).
    """
    n = firsts.shape[1]
    allowed = torch.ones(n, n, dtype=torch.bool).triu().tril(MAX_ANSWER - 1)
    scores = (firsts.unsqueeze(2) + lasts.unsqueeze(1)).masked_fill(~allowed, 3 * IMPOSSIBLE)  # (Q, S, S)
    best = scores.flatten(1).argmax(dim=1)
    return torch.stack([best // n, best % n], dim=1)


def normalise(answer: str) -> List[str]:
    """As SQuAD's evaluation does. RETURNS (List[str]): Words in lower case, without punctuation and articles."""
    kept = "".join(c for c in answer.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", kept).split()


def compare_answers(found: str, wanted: str) -> Tuple[float, float]:
    """RETURNS (Tuple[float, float]): 1.0 for an exact match, and the F1 of the words as bags, both normalised."""
    a, b = normalise(found), normalise(wanted)
    n_common = sum((Counter(a) & Counter(b)).values())
    return float(a == b), 2 * n_common / max(len(a) + len(b), 1)


def evaluate(model: BiDAF, paragraphs: Sequence[Paragraph]) -> Dict[str, float]:
    """RETURNS (Dict[str, float]): EM and F1 in percent; of the answers to a question, the one that fits best counts."""
    n, em, f1 = 0, 0.0, 0.0
    for batch in make_batches(paragraphs, BATCH_SIZE, lambda one: len(one.words)):
        for found, question in zip(model.predict(batch), all_questions(batch)):
            exact, f1s = zip(*(compare_answers(found, wanted) for wanted in question.answers))
            n, em, f1 = n + 1, em + max(exact), f1 + max(f1s)
    return {"EM": 100 * em / max(n, 1), "F1": 100 * f1 / max(n, 1)}


def main() -> None:
    """Read the data, compute the layers once, train both conditions."""
    arguments = make_parser("Question answering with and without ELMo", "qa", epochs=6, every=3).parse_args()
    parts = read_all(arguments, {DATA: read_paragraphs}, "questions", arguments.every)[DATA]
    if (arguments.data / CROSS_DOMAIN).is_dir():
        parts["SQuAD"] = read_items(arguments.data / CROSS_DOMAIN / "test.jsonl.gz", read_paragraphs, arguments.limit)
    parts["train"] = cut_paragraphs(parts["train"], MAX_WORDS)
    check_parts(parts, f"questions (in training, with an answer in the first {MAX_WORDS} words)")
    texts: List[Words] = [one.words for part in parts.values() for one in [*part, *all_questions(part)]]
    layers = None if arguments.without_elmo else FrozenLayers(arguments.bilm, texts)
    print(f"{len(all_questions(parts['train']))} questions on {len(parts['train'])} paragraphs")

    def run(with_elmo: bool) -> Dict[str, float]:
        model = BiDAF(layers if with_elmo else None)
        train(
            model,
            lambda: make_batches(parts["train"], BATCH_SIZE, lambda one: len(one.words)),
            model.loss,
            lambda: evaluate(model, parts["dev"])["F1"],
            epochs=arguments.epochs,
            rate=LEARNING_RATE,
        )
        model.eval()
        with torch.no_grad():
            found = {name: evaluate(model, parts[name]) for name in ("test", "SQuAD") if name in parts}
        return {f"{name}, {metric}": score for name, scores in found.items() for metric, score in scores.items()}

    compare(arguments, run)


if __name__ == "__main__":
    main()
