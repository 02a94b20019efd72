"""Question answering: reading, attention, spans, scores, and the recipe as a whole."""

import re

import pytest
import torch
from examples.writing import write_jsonl, write_parts


def make_line(text, *asked):
    """A paragraph. asked: Pairs of a question and the first and last words of its answers."""
    words, offsets = text.split(), [match.span() for match in re.finditer(r"\S+", text)]
    questions = []
    for question, spans in asked:
        answers = [
            {"text": text[offsets[first][0] : offsets[last][1]], "first": first, "last": last} for first, last in spans
        ]
        questions.append({"question": question, "question_words": question.split(), "answers": answers})
    return {"context": text, "words": words, "offsets": offsets, "qas": questions}


LINES = [
    make_line(
        "The tower was built in 1889 by the company of Gustave Eiffel .",
        ("Who built the tower ?", [(7, 11), (10, 11)]),
        ("When was it built ?", [(5, 5)]),
    ),
    make_line("Mice eat  cheese", ("What do mice eat in the old proverb ?", [(2, 2)])),
]


@pytest.fixture
def qa(load_recipe):
    return load_recipe("qa")


def test_scores_do_not_depend_on_padding(qa, read_lines, tiny_bilm):
    torch.manual_seed(0)
    paragraphs = read_lines(qa.read_paragraphs, LINES)
    texts = [one.words for one in [*paragraphs, *qa.all_questions(paragraphs)]]
    for layers in (None, qa.FrozenLayers(str(tiny_bilm), texts)):
        model = qa.BiDAF(layers).eval()
        together = model(paragraphs)
        assert together[0].shape == together[1].shape == (3, 13)
        single = [
            model([paragraph._replace(questions=(question,))])
            for paragraph in paragraphs
            for question in paragraph.questions
        ]
        for i, sides in enumerate(single):
            for scores, padded in zip(sides, together):
                n = scores.shape[1]
                torch.testing.assert_close(scores[0], padded[i, :n], atol=1e-5, rtol=0.0)
                assert (padded[i, n:] == qa.IMPOSSIBLE).all()
        assert len(single) == 3


def test_loss_sums_over_the_answers_of_all_annotators(qa, read_lines, monkeypatch):
    paragraphs = read_lines(qa.read_paragraphs, LINES)
    model = qa.BiDAF(None)
    monkeypatch.setattr(model, "forward", lambda _: (torch.zeros(3, 13), torch.zeros(3, 13)))
    first, last = torch.tensor([2 / 13, 1 / 13, 1 / 13]), torch.tensor([1 / 13, 1 / 13, 1 / 13])
    wanted = -(first.log() + last.log()).mean()  # two first words of the first question, one last word
    torch.testing.assert_close(model.loss(paragraphs), wanted)


def test_best_span_is_ordered_and_short(qa):
    n = qa.MAX_ANSWER + 3
    firsts, lasts = torch.zeros(3, n), torch.zeros(3, n)
    firsts[0, 4], lasts[0, 2], lasts[0, 6] = 5.0, 5.0, 3.0  # the best last word is before the best first word
    firsts[1, 0], lasts[1, n - 1], lasts[1, 1] = 5.0, 4.0, 1.0  # the best last word is too far
    firsts[2, 1], lasts[2, qa.MAX_ANSWER] = 5.0, 5.0  # just near enough
    assert qa.best_spans(firsts, lasts).tolist() == [[4, 6], [0, 1], [1, qa.MAX_ANSWER]]
    firsts, lasts = torch.tensor([[-2.0, -1.0]]), torch.tensor([[-2.0, -1.0]])
    behind = torch.full((1, 3), qa.IMPOSSIBLE)  # the paragraph
    assert qa.best_spans(torch.cat([firsts, behind], 1), torch.cat([lasts, behind], 1)).tolist() == [[1, 1]]


@pytest.mark.parametrize(
    "found, wanted, exact, f1",
    [
        ("The Supreme Court,", "supreme court", 1.0, 1.0),
        ("an  apple", "Apple.", 1.0, 1.0),
        ("theatre", "atre", 0.0, 0.0),  # articles are words
        ("self-made", "selfmade", 1.0, 1.0),  # punctuation is dropped, not replaced by a space
        ("in the year 1889", "1889", 0.0, 0.5),
        ("very very good", "very good", 0.0, 0.8),
        ("the", "1889", 0.0, 0.0),
    ],
)
def test_answers_are_compared_as_in_squad(qa, found, wanted, exact, f1):
    assert qa.compare_answers(found, wanted) == pytest.approx((exact, f1))


def test_evaluation_takes_the_answer_that_fits_best(qa, read_lines):
    class Fixed:
        def predict(self, paragraphs):
            right = {"Who built the tower ?": "Eiffel", "When was it built ?": "in 1889"}
            return [right.get(" ".join(asked.words), "cheese") for asked in qa.all_questions(paragraphs)]

    scores = qa.evaluate(Fixed(), read_lines(qa.read_paragraphs, LINES))
    assert scores["EM"] == pytest.approx(100 / 3)
    assert scores["F1"] == pytest.approx(100 * (2 / 3 + 2 / 3 + 1) / 3)  # Gustave Eiffel, not the whole company


def test_recipe_prints_scores_of_both_conditions(run_recipe, tiny_bilm, tmp_path):
    write_parts(tmp_path / "squadshifts-newwiki", LINES)
    arguments = ["--data", tmp_path, "--bilm", tiny_bilm, "--epochs", 1, "--seeds", 1, "--every", 1]
    printed = run_recipe("qa", *arguments)
    assert "3 questions on 2 paragraphs" in printed and "SQuAD" not in printed
    write_jsonl(tmp_path / "squad-v1.1-dev" / "test.jsonl.gz", LINES)
    printed = run_recipe("qa", *arguments, "--every", 2)
    assert "2 questions on 1 paragraphs" in printed
    for name in ("test, EM", "test, F1", "SQuAD, EM", "SQuAD, F1"):
        assert printed.count(f"\n{name}") == 2
