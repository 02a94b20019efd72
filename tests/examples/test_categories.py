"""Categories of whole texts: the recipe on texts with one category and with several."""

import pytest
import spacy
from examples.writing import write_parts
from spacy.tokens import DocBin

pytest.importorskip("sklearn", reason="needs scikit-learn")
SINGLE = [("a fine , funny film .", "positive"), ("dull and far too long .", "negative")]
SEVERAL = [("Thanks , I love it !", ["gratitude", "love"]), ("It is on Monday .", ["neutral"])]
ROWS = ["naive Bayes, n-grams", "regression, n-grams", "regression, layers", "regression, both"]


@pytest.mark.issue(42)
@pytest.mark.parametrize(
    "lines", [[{"text": t, "label": c} for t, c in SINGLE], [{"text": t, "labels": c} for t, c in SEVERAL]]
)
def test_every_system_is_scored_with_few_examples_and_with_all(run_recipe, tiny_bilm, tmp_path, lines):
    folder = write_parts(tmp_path, 3 * lines)
    printed = run_recipe(
        "categories", "--data", folder, "--bilm", tiny_bilm, "--per-class", 2, "--seeds", 2, "--all"
    ).splitlines()
    assert [line[19:41].strip() for line in printed] == 2 * ROWS
    assert [line[:4].strip() for line in printed] == 4 * ["2"] + 4 * ["all"]
    for line in printed:  # the test part has the texts of the training part
        assert line[41:].split()[0] == "100.0", line


@pytest.mark.issue(42)
def test_samples_are_saved_for_spacy(run_recipe, tmp_path):
    folder, saved = write_parts(tmp_path, [{"text": t, "labels": c} for t, c in 3 * SEVERAL]), tmp_path / "saved"
    arguments = ("categories", "--data", folder, "--per-class", 1, "--seeds", 2, "--all", "--save", saved)
    printed = run_recipe(*arguments)
    docs = {path.stem: list(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab)) for path in saved.iterdir()}
    sizes = {"train-1-0": 3, "train-1-1": 3, "train-all": 6, "dev": 6, "test": 6}  # one of each category
    assert {name: len(read) for name, read in docs.items()} == sizes
    assert all(f"{name}.spacy" in printed for name in docs)
    for doc, (text, labels) in zip(docs["test"], 3 * SEVERAL):
        assert doc.text.split() == text.split()
        assert doc.cats == {label: float(label in labels) for label in ("gratitude", "love", "neutral")}
    with pytest.raises(SystemExit, match="saved"):  # nothing is overwritten
        run_recipe(*arguments)
