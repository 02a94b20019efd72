"""Coreference: metrics by hand, features, independence of the batch, and the recipe as a whole."""

import pytest
import torch
from examples.writing import write_parts

NOVEL = {
    "words": "Emma saw the old doctor . He greeted her , and she left him .".split(),
    "sentences": [[0, 6], [6, 15]],
    "clusters": [
        [[0, 0, "PER", "PROP"], [8, 8, "PER", "PRON"], [11, 11, "PER", "PRON"]],
        [[2, 4, "PER", "NOM"], [6, 6, "PER", "PRON"], [13, 13, "PER", "PRON"]],
    ],
}
ALONE = {"words": ["Rain", "."], "sentences": [[0, 2]], "clusters": [[[0, 0, "LOC", "NOM"]]]}


def paragraph(words, a, b, pronoun, label):
    spans = {"A": a, "B": b, "pronoun": pronoun}
    return {"words": words.split(), "label": label, **{k: {"first": i, "last": j} for k, (i, j) in spans.items()}}


PARAGRAPHS = [
    paragraph("Ann Lee met Eve . She was late", (0, 1), (3, 3), (5, 5), "A"),
    paragraph("When he came home , Tom Hill rang Bob .", (5, 6), (8, 8), (1, 1), "B"),
    paragraph("Tom told Bob that his uncle sold his car !", (0, 0), (2, 2), (7, 7), "neither"),
]


@pytest.fixture
def coref(load_recipe):
    return load_recipe("coref")


class Oracle:
    """Answers each text from a table, as a model would."""

    def __init__(self, answers):
        self.answers = answers

    def predict(self, texts):
        return [self.answers[text] for text in texts]


WANTED = [{0, 1, 2}, {3, 4, 5, 6}, {7}]
FOUND = [{0, 1}, {2, 3, 4}, {5, 6, 7}]


def test_metrics_of_a_case_by_hand(coref):
    # Links: {0,1,2} is in two parts, {3,4,5,6} in two, {7} in one: 1 + 2 of 2 + 3.
    assert coref.muc(WANTED, FOUND) == (3, 5)
    assert coref.muc(FOUND, WANTED) == (1 + 1 + 1, 1 + 2 + 2)
    right, n = coref.b_cubed(WANTED, FOUND)
    assert (right, n) == (pytest.approx((4 + 1) / 3 + (4 + 4) / 4 + 1), 8)
    right, n = coref.b_cubed(FOUND, WANTED)
    assert (right, n) == (pytest.approx(4 / 2 + (1 + 4) / 3 + (4 + 1) / 3), 8)
    # Best: {0,1,2} with {0,1}, {3,4,5,6} with {2,3,4}, {7} with {5,6,7}.
    assert coref.ceaf(WANTED, FOUND) == (pytest.approx(4 / 5 + 4 / 7 + 2 / 4), 3)
    assert coref.ceaf(FOUND, [{*range(8)}]) == (pytest.approx(6 / 11), 3)


def test_litbank_scores_of_right_and_trivial_answers(coref, read_lines):
    text = read_lines(coref.read_litbank, [NOVEL])[0]
    right = coref.litbank_scores(Oracle({text: [None, None, 1, 0, 3, 2]}), [text, text])
    assert right == pytest.approx({"CoNLL": 100.0, "muc": 100.0, "b_cubed": 100.0, "ceaf": 100.0})
    alone = coref.litbank_scores(Oracle({text: [None] * 6}), [text])
    # B-cubed: recall 1/3, precision 1. CEAF: each entity with one mention of it, 2/4, of 2 entities and of 6 found.
    assert alone == pytest.approx({"CoNLL": (0 + 50 + 25) / 3, "muc": 0.0, "b_cubed": 50.0, "ceaf": 25.0})
    everyone = coref.find_clusters(text, [None, 0, 1, 2, 3, 4])
    assert everyone == [set(range(6))]


def test_gap_scores_by_gender(coref, read_lines):
    texts = read_lines(coref.read_gap, PARAGRAPHS)
    right, nobody = [[0], [1], [None]], [[None]] * 3
    assert coref.gap_scores(Oracle(dict(zip(texts, right))), texts) == dict.fromkeys(
        ("F1", "feminine", "masculine"), 100
    )
    assert coref.gap_scores(Oracle(dict(zip(texts, nobody))), texts) == dict.fromkeys(
        ("F1", "feminine", "masculine"), 0
    )
    scores = coref.gap_scores(Oracle(dict(zip(texts, [[0], [0], [1]]))), texts)  # 1 right; 3 found, 2 wanted
    assert scores == pytest.approx({"F1": 200 / 5, "feminine": 100.0, "masculine": 0.0})


def test_scores_do_not_depend_on_the_other_texts(coref, read_lines, tiny_bilm):
    torch.manual_seed(0)
    texts = read_lines(coref.read_litbank, [NOVEL, ALONE]) + read_lines(coref.read_gap, PARAGRAPHS)
    layers = coref.FrozenLayers(str(tiny_bilm), [words for text in texts for words in text.sentences])
    for given in (None, layers):
        model = coref.MentionRanker(given).eval()
        together = model(texts)
        assert together.shape == (6 + 1 + 3, 1 + 5) and not together[:, 0].any()
        for text, rows in zip(texts, together.split([6, 1, 1, 1, 1])):
            single = model([text])
            torch.testing.assert_close(single, rows[:, : single.shape[1]], atol=1e-5, rtol=0.0)
            assert bool((rows[:, single.shape[1] :] == -torch.inf).all())
        assert model.predict(texts)[1] == [None]


def test_loss_is_the_marginal_of_all_right_antecedents(coref, read_lines):
    torch.manual_seed(0)
    texts = read_lines(coref.read_litbank, [NOVEL]) + read_lines(coref.read_gap, PARAGRAPHS[2:])
    model = coref.MentionRanker(None).eval()
    probs = model(texts).softmax(dim=1)
    right = [[0], [0], [2], [1], [1, 4], [2, 3], [0]]  # columns: 0 is the dummy, j + 1 is mention j
    wanted = -torch.stack([row[columns].sum() for row, columns in zip(probs, right)]).log().mean()
    torch.testing.assert_close(model.loss(texts), wanted)


def test_recipe_prints_scores_of_both_conditions(run_recipe, tiny_bilm, tmp_path):
    write_parts(tmp_path / "data" / "litbank", [NOVEL, ALONE])
    write_parts(tmp_path / "data" / "gap", PARAGRAPHS)
    printed = run_recipe("coref", "--data", tmp_path / "data", "--bilm", tiny_bilm, "--epochs", 1, "--seeds", 1)
    for name in ("litbank, CoNLL", "litbank, muc", "gap, F1", "gap, feminine", "gap, masculine"):
        assert printed.count(f"\n{name}") == 2
