"""Detect raw text where tokenized text is expected: many of its words end in punctuation."""

from typing import Iterable, Iterator, List, Optional, Sequence

from ..errors import Warnings

# Without apostrophes and hyphens, since tokenizers do not split them off.
ENDINGS = frozenset('.,;:!?…)]"”»。、，！？；：）」』؟،।')
# Tokenized English text has 1 % of such tokens, mostly abbreviations; raw text has 14 %.
MOST = 0.05


class PunctuationCheck:
    """The share of tokens that end in punctuation among the first tokens of a text.

    max_tokens (int): Maximum number of tokens to check.
    """

    def __init__(self, max_tokens: int = 20_000) -> None:
        self.n_tokens = self.n_attached = 0
        self.example = ""
        self._max_tokens = max_tokens

    def add(self, tokens: Iterable[str]) -> None:
        """tokens (Iterable[str]): The next tokens of the text."""
        if self.n_tokens >= self._max_tokens:
            return
        for token in tokens:
            self.n_tokens += 1
            if token[-1:] in ENDINGS and any(character.isalnum() for character in token):
                self.n_attached += 1
                self.example = self.example or token

    def watch(self, sentences: Iterable[List[str]]) -> Iterator[List[str]]:
        """sentences (Iterable[List[str]]): The text.
        YIELDS (List[str]): The same sentences.
        """
        for tokens in sentences:
            self.add(tokens)
            yield tokens

    def warning(self, places: Sequence[object], lang: str = "en") -> Optional[str]:
        """places (Sequence[object]): Source of the text.
        lang (str): Language whose tokenizer the warning proposes.
        RETURNS (Optional[str]): WL103 if more than `MOST` of the tokens end in punctuation.
        """
        if self.n_attached <= MOST * self.n_tokens:
            return None
        return Warnings.WL103.format(
            share=f"{self.n_attached / self.n_tokens:.0%}",
            source=", ".join(map(str, places)),
            example=self.example,
            lang=lang,
        )
