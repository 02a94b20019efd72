"""What holds for every recipe: its row in the README, that it runs and learns; what the recipes share."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from examples.writing import FOLDERS, TEXTS, write_parts
from nn.tiny import SENTENCES

from spacy_elmo.nn import Elmo

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
RECIPES = sorted(
    path.stem for path in EXAMPLES.glob("*.py") if path.stem not in ("_common", "_records", "categories", "serve")
)
# Folder of the real data, options for a slice of it, and the share of the first loss that the last one is below.
SLICES = {
    "coref": ("coref", ["--limit", 4, "--epochs", 3], 0.9),
    "nli": ("nli", ["--limit", 300, "--epochs", 4], 0.9),
    "qa": ("qa", ["--every", 1, "--limit", 60, "--epochs", 4], 0.8),
    "sentiment": (".", ["--task", "sentence-polarity", "--limit", 300, "--epochs", 5], 0.8),
    "srl": ("srl/ewt-propbank", ["--limit", 200, "--every", 1, "--epochs", 4], 0.7),
}
README = (EXAMPLES / "README.md").read_text(encoding="utf8")


def test_readme_has_every_recipe():
    assert sorted(re.findall(r"^\| \[(\w+)\.py\]\(\1\.py\) \|", README, flags=re.M)) == sorted([*RECIPES, "categories"])


@pytest.mark.issue(59)
@pytest.mark.parametrize("name, package", [("serve", "uvicorn"), ("serve", "starlette"), ("categories", "sklearn")])
def test_a_missing_package_is_named_with_the_command_that_installs_it(name, package):
    blocked = f"import runpy, sys; sys.modules['{package}'] = None; sys.argv = ['{name}.py', '--help']; "
    script = blocked + f"runpy.run_path({str(EXAMPLES / name) + '.py'!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", script], cwd=EXAMPLES, capture_output=True, text=True)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "pip install" in done.stderr and package.replace("sklearn", "scikit-learn") in done.stderr


@pytest.mark.issue(42)
def test_frequent_words_count_little_in_vectors_of_texts():
    (block,) = re.findall(r"^```python\n(.*?)^```$", README, flags=re.M | re.S)
    space = {}
    exec(block, space)
    vectors = space["to_vectors"](["rain", "the rain", "the the the rain .", "Qwertyuiop", "the"])
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert (units[:3] @ units[0] > 0.9).all() and units[4] @ units[0] < 0.7
    many = [f"{verb} {name} {when}" for verb in ("Call", "Ask") for name in ("Ada", "Bob") for when in "abcdefghij"]
    exec(block.replace(block[block.index("texts = [") :].splitlines()[0], f"texts = {many}"), space)
    assert space["axes"].shape == (2, 256) and np.abs(space["vectors"] @ space["axes"].T).max() < 1e-5


# Of each recipe: its options, and scores that it prints without ELMo and with it.
SCORES = {
    "coref": ([], ["litbank, CoNLL", "gap, F1", "gap, feminine"]),
    "nli": ([], ["snli-cad, test", "sick, test", "breaking-nli, entailment"]),
    "qa": (["--every", 1], ["test, EM", "test, F1", "SQuAD, EM"]),
    "sentiment": ([], ["accuracy, sentence-polarity", "macro-F1, goemotions"]),
    "srl": (["--every", 1], ["span F1"]),
}
PARAGRAPHS = [
    {"words": words.split(), "label": label, **{name: {"first": i, "last": j} for name, (i, j) in spans.items()}}
    for words, label, spans in (
        ("Ann Lee met Eve . She was late", "A", {"A": (0, 1), "B": (3, 3), "pronoun": (5, 5)}),
        ("When he came home , Tom Hill rang Bob .", "B", {"A": (5, 6), "B": (8, 8), "pronoun": (1, 1)}),
    )
]
COMMENTS = [
    {"text": "Thanks , I love it !", "labels": ["gratitude", "love"]},
    {"text": "On Monday", "labels": ["neutral"]},
]
# Further data sets below the folder of the data.
FURTHER = {
    "coref": {"gap": PARAGRAPHS},
    "nli": {"sick": TEXTS["nli"], "breaking-nli": TEXTS["nli"]},
    "qa": {"squad-v1.1-dev": TEXTS["qa"]},
    "sentiment": {"goemotions": 4 * COMMENTS},
    "srl": {},
}


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_prints_scores_of_both_conditions(name, run_recipe, tiny_bilm, tmp_path):
    for folder, lines in {FOLDERS[name]: 4 * TEXTS[name], **FURTHER[name]}.items():
        write_parts(tmp_path / "data" / folder, lines)
    options, scores = SCORES[name]
    data = ("--data", tmp_path / "data", "--bilm", tiny_bilm)
    printed = run_recipe(name, *data, "--epochs", 1, "--seeds", 1, *options)
    for score in scores:
        assert printed.count(f"\n{score}") == 2, printed


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_recipe_learns_from_a_slice_of_the_real_data(run_recipe, shared_data, name):
    folder, options, share = SLICES[name]
    printed = run_recipe(name, "--data", shared_data / folder, *options, "--seeds", 1, "--with-elmo")
    if name == "sentiment":  # spaCy's table, whose first row is that of step 0
        rows = [line.split() for line in printed.splitlines() if re.match(r" *\d+ +\d+ ", line)]
        losses = [float(row[3]) for row in rows[1:]]
    else:  # where there are two data sets the first one, but of nli the second, SICK: SNLI needs more than a slice
        rows = [line.split() for line in printed.splitlines() if line.startswith("  epoch")]
        n_epochs = options[-1]
        losses = [float(row[3].rstrip(",")) for row in (rows[-n_epochs:] if name == "nli" else rows[:n_epochs])]
    assert losses[-1] < share * losses[0], losses


# What the recipes share


@pytest.fixture
def common(load_recipe):
    return load_recipe("_common")


def test_frozen_layers_are_those_of_the_module(common, tiny_bilm):
    sentences = [words for words in SENTENCES if words]
    layers = common.FrozenLayers(str(tiny_bilm), sentences)
    elmo = layers.new_mixes(2, dropout=0.0)
    output = elmo.mix(*layers(sentences[::-1]))
    wanted = Elmo(elmo.bilm, 1, dropout=0.0)(sentences[::-1])
    assert torch.equal(output.mask, wanted.mask) and len(output.representations) == 2
    torch.testing.assert_close(output.representations[1], wanted.representations[0], atol=2e-3, rtol=0.0)


def test_training_stops_early_and_keeps_the_best_weights(common, capsys):
    model, scores = torch.nn.Linear(1, 1), iter([1.0, 3.0, 2.0, 2.5, 9.0])
    seen = []

    def score():
        seen.append(model.weight.item())
        return next(scores)

    common.train(model, lambda: [1.0], lambda x: model(torch.ones(1, 1)).sum(), score, epochs=5)
    assert len(seen) == 4 and model.weight.item() == pytest.approx(seen[1])
    assert "epoch 2: loss" in capsys.readouterr().out
