"""Semantic role labelling: constrained search, spans, and the recipe as a whole."""

from itertools import product

import pytest
import torch
from examples.writing import write_parts

WORDS = ["She", "gave", "him", "the", "book", "yesterday"]
TAGS = ["B-ARG0", "B-V", "B-ARG2", "B-ARG1", "I-ARG1", "B-ARGM-TMP"]


def write_data(folder):
    frame = {"predicate": 1, "lemma": "give", "roleset": "give.01", "tags": TAGS}
    lines = [{"id": str(i), "words": WORDS, "frames": [frame] * (i % 2)} for i in range(6)]
    return write_parts(folder, lines)


@pytest.fixture
def srl(load_recipe):
    return load_recipe("srl")


def is_valid(tags):
    return all(
        not tag.startswith("I-") or (i > 0 and tags[i - 1] in (f"B-{tag[2:]}", tag)) for i, tag in enumerate(tags)
    )


def test_search_finds_the_best_valid_tags(srl):
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
def test_arguments_are_spans_without_the_predicate_and_continued_ones_are_one(srl):
    spans = {("ARG0", ((0, 1),)), ("ARG2", ((2, 3),)), ("ARG1", ((3, 5),)), ("ARGM-TMP", ((5, 6),))}
    assert srl.find_arguments(TAGS) == spans
    tags = ["B-A", "O", "B-A", "B-V", "B-C-A", "I-C-A", "B-C-V", "B-C-A", "B-C-B", "B-R-A"]
    continued = ("A", ((2, 3), (4, 6), (7, 8)))  # of the last A before it; without a B before it, C-B is one itself
    assert srl.find_arguments(tags) == {("A", ((0, 1),)), continued, ("C-B", ((8, 9),)), ("R-A", ((9, 10),))}


def test_scores_do_not_depend_on_padding(srl, tiny_bilm):
    torch.manual_seed(0)
    frames = [srl.Frame(tuple(WORDS), 1, tuple(TAGS)), srl.Frame(("Go", "!"), 0, ("B-V", "O"))]
    layers = srl.FrozenLayers(str(tiny_bilm), [frame.words for frame in frames])
    model = srl.RoleLabeller(["O", *sorted(set(TAGS))], layers).eval()
    together, mask = model(frames)
    for frame, rows, is_word in zip(frames, together, mask):
        torch.testing.assert_close(model([frame])[0][0], rows[is_word], atol=1e-5, rtol=0.0)


def test_recipe_prints_scores_of_both_conditions(run_recipe, tiny_bilm, tmp_path):
    arguments = ["--data", write_data(tmp_path / "data"), "--bilm", tiny_bilm, "--epochs", 1, "--seeds", 1]
    printed = run_recipe("srl", *arguments, "--every", 1)
    assert "3 frames, 7 tags" in printed
    lines = [line.split() for line in printed.splitlines() if line.startswith("span F1")]
    assert [line[3] for line in lines] == ["without", "with"]
