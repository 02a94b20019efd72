"""The symbols of a biLM with tables of its own: characters and words by id (ELMoForManyLangs)."""

from typing import Dict, Optional, Sequence, Tuple

BOS, EOS, OOV, PAD = "<bos>", "<eos>", "<oov>", "<pad>"
# The original swaps begin and end of a word: the id of `<eow>` comes first.
FIRST, LAST = "<eow>", "<bow>"
CHARACTERS_NEEDED = (BOS, EOS, OOV, PAD, LAST, FIRST)
WORDS_NEEDED = (OOV, PAD)

Symbols = Tuple[Optional[str], ...]


class Lexicon:
    """Characters and words by id.

    characters (Sequence[Optional[str]]): None where an id has no symbol; empty for words only.
    words (Sequence[Optional[str]]): None where an id has no symbol; empty for characters only.
    """

    def __init__(self, characters: Sequence[Optional[str]] = (), words: Sequence[Optional[str]] = ()) -> None:
        self.characters: Symbols = tuple(characters)
        self.words: Symbols = tuple(words)
        self.character_ids = _ids(self.characters)
        self.word_ids = _ids(self.words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lexicon) and (self.characters, self.words) == (other.characters, other.words)

    def __hash__(self) -> int:
        return hash((self.characters, self.words))

    def problems(self, n_characters: int, n_words: int) -> "list[str]":
        """n_characters (int), n_words (int): Rows of the tables.
        RETURNS (list[str]): What does not fit.
        """
        problems = []
        for name, symbols, ids, n, needed in (
            ("characters", self.characters, self.character_ids, n_characters, CHARACTERS_NEEDED),
            ("words", self.words, self.word_ids, n_words, WORDS_NEEDED),
        ):
            if len(symbols) != n:
                problems.append(f"it has {len(symbols):,} {name}, but their table has {n:,} rows")
            missing = [symbol for symbol in needed if symbol not in ids]
            if symbols and missing:
                problems.append(f"its {name} lack {', '.join(missing)}")
            n_repeated = sum(symbol is not None for symbol in symbols) - len(ids)
            if n_repeated:
                problems.append(f"{n_repeated:,} of its {name} are there twice")
        return problems


def _ids(symbols: Symbols) -> Dict[str, int]:
    return {symbol: i for i, symbol in enumerate(symbols) if symbol is not None}
