"""Raw text among tokens is noticed by words that end in punctuation."""

import pytest

from spacy_elmo.corpora.punctuation import PunctuationCheck


@pytest.mark.issue(15)
@pytest.mark.parametrize(
    "text, is_raw",
    [
        ('He said "quoted". She sat, too.', True),
        ('He said " quoted " . She sat , too .', False),
        ("Das Haus, das er sah, war alt.", True),
        ("Das Haus , das er sah , war alt .", False),
        ("我们坐在河边。 天气很好！", True),
        ("我们 坐 在 河 边 。 天气 很 好 ！", False),
        ("the dogs' bowls and well-known things - ... --", False),
        ("", False),
    ],
)
def test_raw_text_is_told_from_tokens(text, is_raw):
    check = PunctuationCheck()
    assert list(check.watch([text.split()])) == [text.split()]
    assert ("WL103" in (check.warning(["a.txt"]) or "")) == is_raw


def test_the_first_tokens_are_looked_at():
    check = PunctuationCheck(max_tokens=4)
    list(check.watch([["a", "b", "c", "d"], ["e."] * 99]))
    assert check.n_tokens == 4 and check.warning(["a.txt"]) is None
