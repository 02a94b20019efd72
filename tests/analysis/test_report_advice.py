"""What is said where ELMo is not above its baseline, and what to try there."""

from pathlib import Path

import pytest
import spacy
from report_outputs import make_pipeline, write_classifier

from spacy_elmo.analysis.report_advice import Difference, find_advice

BELOW = Difference("TAG", "tag", -0.07, -0.09, -0.05)
UNKNOWN = Difference("TAG", "tag", -0.07, None, None)
WITHIN = Difference("TAG", "tag", 0.01, -0.02, 0.04)
NONE, NONE_KNOWN = Difference("TAG", "tag", -0.00004, -0.004, 0.004), Difference("TAG", "tag", -0.00004, None, None)
ABOVE = Difference("TAG", "tag", 0.03, 0.01, 0.05)


@pytest.mark.parametrize(
    "differences, first",
    [
        ([BELOW], "ELMo is below the baseline: TAG \u22127.00 points."),
        (
            [UNKNOWN],
            "ELMo is below the baseline: TAG \u22127.00 points. With one seed its significance is not known.",
        ),
        ([WITHIN, ABOVE], "ELMo is not significantly above or below the baseline: TAG +1.00 points."),
        ([NONE], "ELMo is not significantly above or below the baseline: TAG +0.00 points."),
        ([NONE_KNOWN], "ELMo is not significantly above or below the baseline: TAG +0.00 points."),
    ],
)
def test_differences_are_said_in_words_with_what_to_try(differences, first):
    said = list(find_advice(differences, make_pipeline({}, has_elmo=True)))
    assert said[0] == first
    assert ("take the baseline" in said[-1]) == (differences[0] in (BELOW, UNKNOWN))
    tried = " ".join(line for line in said if line.startswith("Try: "))
    assert "init-config accuracy.cfg --component tagger --optimize accuracy --lang en --baseline" in tried
    assert "--fine-tune" in tried and "initial_gamma" not in tried


def test_the_command_has_factories_and_the_code_that_they_need():
    nlp = make_pipeline({}, has_elmo=True)
    nlp.rename_pipe("tagger", "words")
    said = " ".join(find_advice([BELOW], nlp, Path("my code.py")))
    assert "which words reads alone" in said
    assert "--component tagger --optimize accuracy --lang en --code 'my code.py' --baseline" in said


def test_nothing_is_said_of_scores_above():
    assert list(find_advice([ABOVE, Difference("TAG", "tag", 0.01, None, None)], spacy.blank("en"))) == []


def test_n_grams_can_get_more_weight(tmp_path):
    nlp = spacy.load(write_classifier(tmp_path) / "model-best")
    said = " ".join(find_advice([Difference("TEXTCAT (macro F)", "cats", -0.1, -0.2, -0.05)], nlp))
    assert "--components.textcat.model.tok2vec.initial_gamma 0.02 for categories that keywords show, 0.2" in said
    assert "word features beside ELMo" not in said and "--fine-tune" not in said  # it has n-grams beside it


def test_a_weight_that_was_chosen_on_the_texts_is_not_to_be_tried_again(tmp_path):
    nlp = spacy.load(write_classifier(tmp_path) / "model-best")
    nlp.config["initialize"]["after_init"] = {"@callbacks": "spacy-elmo.ChooseGamma.v1"}
    difference = Difference("TEXTCAT (macro F)", "cats", -0.1, -0.2, -0.05)
    assert "0.2 for wording and style, and --initialize.after_init null" in " ".join(find_advice([difference], nlp))
    nlp.get_pipe_config("textcat")["model"]["tok2vec"]["initial_gamma"] = 0.05
    said = " ".join(find_advice([difference], nlp))
    assert "init-adaptation" in said and "initial_gamma" not in said and "--fine-tune" not in said
