"""Networks, searches and scores of the recipes: independent of the batch, and by hand."""

from itertools import product

import pytest
import torch
from examples.writing import ROLES, TEXTS

# Of each recipe: its reader and model, and how many losses an item has a share in.
MODELS = {
    "coref": ("read_litbank", lambda recipe: recipe.MentionRanker(None), lambda text: len(text.anaphors)),
    "nli": ("read_pairs", lambda recipe: recipe.ESIM(None), lambda pair: 1),
    "qa": ("read_paragraphs", lambda recipe: recipe.BiDAF(None), lambda paragraph: len(paragraph.questions)),
    "srl": ("read_frames", lambda recipe: recipe.RoleLabeller(["O", *ROLES], None), lambda frame: len(frame.words)),
}


@pytest.mark.parametrize("name", MODELS)
def test_losses_do_not_depend_on_the_batch_or_padding(name, load_recipe, read_lines):
    """The loss of a batch is the mean of those of its items."""
    torch.manual_seed(0)
    recipe, (reader, make_model, size_of) = load_recipe(name), MODELS[name]
    items = read_lines(getattr(recipe, reader), TEXTS[name])
    model, sizes = make_model(recipe).eval(), torch.tensor([float(size_of(item)) for item in items])
    wanted = sum(size * model.loss([item]) for size, item in zip(sizes, items) if size) / sizes.sum()
    assert len(items) > 1
    torch.testing.assert_close(model.loss(items), wanted, atol=1e-5, rtol=0.0)


def test_coreference_is_scored_as_in_the_papers(load_recipe, read_lines):
    coref = load_recipe("coref")
    wanted, found = [{0, 1, 2}, {3, 4, 5, 6}, {7}], [{0, 1}, {2, 3, 4}, {5, 6, 7}]
    # Links: {0,1,2} is in two parts, {3,4,5,6} in two, {7} in one: 1 + 2 of 2 + 3.
    assert coref.muc(wanted, found) == (3, 5) and coref.muc(found, wanted) == (1 + 1 + 1, 1 + 2 + 2)
    assert coref.b_cubed(wanted, found) == pytest.approx(((4 + 1) / 3 + (4 + 4) / 4 + 1, 8))
    assert coref.b_cubed(found, wanted) == pytest.approx((4 / 2 + (1 + 4) / 3 + (4 + 1) / 3, 8))
    # Best: {0,1,2} with {0,1}, {3,4,5,6} with {2,3,4}, {7} with {5,6,7}.
    assert coref.ceaf(wanted, found) == pytest.approx((4 / 5 + 4 / 7 + 2 / 4, 3))
    assert coref.ceaf(found, [{*range(8)}]) == pytest.approx((6 / 11, 3))
    text = read_lines(coref.read_litbank, TEXTS["coref"])[0]
    assert coref.find_clusters(text, [None, 0, 1, 2, 3, 4]) == [set(range(6))]


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
def test_answers_are_compared_as_in_squad(load_recipe, found, wanted, exact, f1):
    assert load_recipe("qa").compare_answers(found, wanted) == pytest.approx((exact, f1))


def is_valid(tags):
    return all(
        not tag.startswith("I-") or (i > 0 and tags[i - 1] in (f"B-{tag[2:]}", tag)) for i, tag in enumerate(tags)
    )


def test_roles_are_the_best_valid_tags(load_recipe):
    srl = load_recipe("srl")
    torch.manual_seed(0)
    model = srl.RoleLabeller(["O", "B-A", "I-A", "B-B", "I-B"], None)
    scores = torch.randn(4, 4, 5)
    scores[:, :, [2, 4]] += 1.0  # so that the best tags word by word are not valid
    lengths = [4, 3, 1, 2]
    mask = torch.arange(4) < torch.tensor(lengths).unsqueeze(1)
    paths = srl.viterbi(scores, mask, *model.constraints()).tolist()
    for path, rows, n in zip(paths, scores, lengths):
        valid = [ids for ids in product(range(5), repeat=n) if is_valid([model.tags[i] for i in ids])]
        best = max(valid, key=lambda ids: sum(float(rows[t, i]) for t, i in enumerate(ids)))
        assert tuple(path[:n]) == best


@pytest.mark.issue(16)
def test_arguments_are_spans_without_the_predicate_and_continued_ones_are_one(load_recipe):
    srl = load_recipe("srl")
    spans = {("ARG0", ((0, 1),)), ("ARG2", ((2, 3),)), ("ARG1", ((3, 5),)), ("ARGM-TMP", ((5, 6),))}
    assert srl.find_arguments(ROLES) == spans
    tags = ["B-A", "O", "B-A", "B-V", "B-C-A", "I-C-A", "B-C-V", "B-C-A", "B-C-B", "B-R-A"]
    continued = ("A", ((2, 3), (4, 6), (7, 8)))  # of the last A before it; without a B before it, C-B is one itself
    assert srl.find_arguments(tags) == {("A", ((0, 1),)), continued, ("C-B", ((8, 9),)), ("R-A", ((9, 10),))}
