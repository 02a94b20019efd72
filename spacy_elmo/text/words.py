"""Words as integers: their characters, the words that a biLM can predict, the distinct words of a text.

A codec converts words to character ids: UTF-8 bytes (bilm-tf, AllenNLP), or symbols of tables of the model
(ELMoForManyLangs). The config of a biLM selects it.
"""

from typing import Any, Dict, Iterable, List, Optional, Protocol, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

SENTENCE_BEGIN = "<S>"
SENTENCE_END = "</S>"

# Ids as in the weights files. At run time every id is shifted by one, since 0 is the mask.
BOS_CHARACTER = 256
EOS_CHARACTER = 257
BOW_CHARACTER = 258
EOW_CHARACTER = 259
PAD_CHARACTER = 260

# Symbols of a lexicon.
BOS_SYMBOL, EOS_SYMBOL, OOV_SYMBOL, PAD_SYMBOL = "<bos>", "<eos>", "<oov>", "<pad>"
# ELMoForManyLangs swaps begin and end of a word: the id of `<eow>` comes first.
BOW_SYMBOL, EOW_SYMBOL = "<eow>", "<bow>"
REQUIRED_CHARACTERS = (BOS_SYMBOL, EOS_SYMBOL, OOV_SYMBOL, PAD_SYMBOL, EOW_SYMBOL, BOW_SYMBOL)
REQUIRED_WORDS = (OOV_SYMBOL, PAD_SYMBOL)
MAX_SPELLED = 10_000  # characters of a word that an LSTM reads, since all words of a batch have rows of its length

Ids = NDArray[np.int64]
Symbols = Tuple[Optional[str], ...]


def character_ids(words: Sequence[str], max_characters: int = 50) -> Ids:
    """Convert U words to character ids (U, C), shifted by one; `<S>` and `</S>` are BOS and EOS.

    max_characters (int): C, ids per row; longer words are truncated to C - 2 bytes.
    """
    longest = max_characters - 2
    contents = [word[:max_characters].encode("utf8", "ignore")[:longest] for word in words]
    sizes = np.fromiter(map(len, contents), dtype="int64", count=len(words))
    rows = _rows_of_bytes(np.frombuffer(b"".join(contents), dtype="uint8"), sizes, max_characters).astype("int64")
    for row, word in zip(rows, words):
        if len(word) > longest or word in (SENTENCE_BEGIN, SENTENCE_END):
            ids = word_characters(word, max_characters)
            row[: len(ids)], row[len(ids) :] = ids, PAD_CHARACTER + 1
    return rows


def _rows_of_bytes(content: NDArray[np.uint8], sizes: Ids, max_characters: int) -> NDArray[np.int16]:
    """Character ids (U, C) of words of these numbers of bytes, which are concatenated; at most C - 2 each."""
    n_words = len(sizes)
    rows = np.full((n_words, max_characters), PAD_CHARACTER + 1, dtype="int16")
    rows[:, 0] = BOW_CHARACTER + 1
    rows.reshape(-1)[ranges(np.arange(n_words) * max_characters + 1, sizes)] = content.astype("int16") + 1
    rows[np.arange(n_words), sizes + 1] = EOW_CHARACTER + 1
    return rows


def ranges(starts: Ids, lengths: Ids) -> Ids:
    """Concatenated ranges of whole numbers."""
    stops = np.cumsum(lengths)
    places: Ids = np.repeat(starts - stops + lengths, lengths) + np.arange(lengths.sum())
    return places


def word_characters(word: str, max_characters: int = 50) -> List[int]:
    """Convert one word to at most `max_characters` ids without padding, shifted by one.

    Unpaired surrogates cannot be encoded in UTF-8 and are dropped. Truncation may split a multi-byte character.
    """
    content: Sequence[int]
    if word == SENTENCE_BEGIN:
        content = (BOS_CHARACTER,)
    elif word == SENTENCE_END:
        content = (EOS_CHARACTER,)
    else:
        content = word[:max_characters].encode("utf8", "ignore")[: max_characters - 2]
        if len(content) < max_characters - 2 < len(word):  # surrogates were dropped from the slice
            content = word.encode("utf8", "ignore")[: max_characters - 2]
    return [BOW_CHARACTER + 1, *(character + 1 for character in content), EOW_CHARACTER + 1]


class Lexicon:
    """Characters and words by id, None where an id has no symbol; empty without a table of them."""

    def __init__(self, characters: Sequence[Optional[str]] = (), words: Sequence[Optional[str]] = ()) -> None:
        self.characters: Symbols = tuple(characters)
        self.words: Symbols = tuple(words)
        self.character_ids, self.word_ids = (
            {symbol: i for i, symbol in enumerate(symbols) if symbol is not None}
            for symbols in (self.characters, self.words)
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lexicon) and (self.characters, self.words) == (other.characters, other.words)

    def __hash__(self) -> int:
        return hash((self.characters, self.words))

    def problems(self, n_characters: int, n_words: int) -> List[str]:
        """What does not fit tables with these numbers of rows."""
        problems = []
        for name, symbols, ids, n, required in (
            ("characters", self.characters, self.character_ids, n_characters, REQUIRED_CHARACTERS),
            ("words", self.words, self.word_ids, n_words, REQUIRED_WORDS),
        ):
            if len(symbols) != n:
                problems.append(f"it has {len(symbols):,} {name}, but their table has {n:,} rows")
            missing = [symbol for symbol in required if symbol not in ids]
            if symbols and missing:
                problems.append(f"its {name} lack {', '.join(missing)}")
            n_repeated = sum(symbol is not None for symbol in symbols) - len(ids)
            if n_repeated:
                problems.append(f"{n_repeated:,} of its {name} are there twice")
        return problems


class CharacterCodec(Protocol):
    """Converts words to rows of character ids. Id 0 is the mask and occurs in no word. `boundaries` are the words that
    are BOS and EOS.
    """

    boundaries: Tuple[str, str]

    @property
    def max_characters(self) -> Optional[int]:
        """C, ids per row; None if the longest word determines it."""

    def largest_ids(self, n_columns: int) -> Union[int, Ids]:
        """The largest id of all of `n_columns` columns, or of each, shape (C,)."""

    def lengths(self, ids: Ids) -> Ids:
        """The number of ids (U,) of each word in rows (U, C) without padding, as `encode` gives it or more."""

    def encode(self, words: Sequence[str], n_columns: int = 0) -> Tuple[Ids, Ids]:
        """Character ids (U, C), and the number of ids of each word without padding (U,). `n_columns` is the minimum of
        C where rows are as long as the longest word.
        """


class Utf8Codec:
    """UTF-8 bytes between begin-of-word and end-of-word ids, as in bilm-tf and AllenNLP."""

    padding = PAD_CHARACTER + 1  # ids are shifted by one
    n_characters = PAD_CHARACTER + 1
    boundaries = (SENTENCE_BEGIN, SENTENCE_END)

    def __init__(self, max_characters: int) -> None:
        self.max_characters = max_characters

    def largest_ids(self, n_columns: int) -> int:
        return self.n_characters

    def lengths(self, ids: Ids) -> Ids:
        # The last id of a row is taken for the padding, which need not be ours.
        return _last_place(ids != ids[:, -1:])

    def encode(self, words: Sequence[str], n_columns: int = 0) -> Tuple[Ids, Ids]:
        rows = character_ids(words, self.max_characters)
        return rows, (rows != self.padding).sum(axis=1)


class LexiconCodec:
    """Ids of a word and of its Unicode characters in the tables of a lexicon, as in ELMoForManyLangs. The first column
    is the word, 1 without a word table; the others are the characters, none without a character table.

    max_characters (Optional[int]): Longer words are truncated to two characters less, for the word table, too.
    is_fixed (bool): Whether each row has `max_characters` ids of characters, or as many as the longest word.
    """

    # Not the symbols themselves: a text that has these as words may get them truncated.
    boundaries = ("\0" + BOS_SYMBOL, "\0" + EOS_SYMBOL)

    def __init__(self, lexicon: Lexicon, max_characters: Optional[int], *, is_fixed: bool) -> None:
        self.lexicon = lexicon
        self._max_content = None if max_characters is None else max_characters - 2
        self._has_characters = bool(lexicon.characters)
        self._padding = lexicon.character_ids.get(PAD_SYMBOL, 0) + 1
        self.max_characters: Optional[int] = 1 if not self._has_characters else None
        if self._has_characters and is_fixed and max_characters is not None:
            self.max_characters = 1 + max_characters

    def largest_ids(self, n_columns: int) -> Ids:
        n_words, n_characters = max(len(self.lexicon.words), 1), len(self.lexicon.characters)
        return np.array([n_words, *[n_characters] * (n_columns - 1)], dtype="int64")

    def lengths(self, ids: Ids) -> Ids:
        min_length = 1 if self._has_characters else 0  # an LSTM reads at least one
        lengths: Ids = np.maximum(_last_place(ids[:, 1:] != self._padding), min_length)
        return lengths

    def encode(self, words: Sequence[str], n_columns: int = 0) -> Tuple[Ids, Ids]:
        cut = [word[1:] if word in self.boundaries else word[: self._max_content] for word in words]
        spelled = [self._spell(word) for word in cut]
        lengths = np.array([len(ids) for ids in spelled], dtype="int64")
        width = self.max_characters or max(n_columns, 1 + int(lengths.max(initial=0)))
        rows = np.full((len(words), width), self._padding, dtype="int64")
        rows[:, 0] = [self._word_id(word) for word in cut]
        for row, ids in zip(rows, spelled):
            row[1 : 1 + len(ids)] = ids
        return rows, lengths

    def _spell(self, word: str) -> List[int]:
        if not self._has_characters:
            return []
        ids = self.lexicon.character_ids
        content = (word,) if word in (BOS_SYMBOL, EOS_SYMBOL) else word[:MAX_SPELLED]
        symbols = (BOW_SYMBOL, *(c if c in ids else OOV_SYMBOL for c in content), EOW_SYMBOL)
        return [ids[symbol] + 1 for symbol in symbols]

    def _word_id(self, word: str) -> int:
        ids = self.lexicon.word_ids
        return ids.get(word, ids.get(OOV_SYMBOL, 0)) + 1


def _last_place(is_content: NDArray[np.bool_]) -> Ids:
    """The number of the last column of each row that is true, counted from 1; 0 for none."""
    lengths: Ids = (is_content * np.arange(1, is_content.shape[1] + 1)).max(axis=1, initial=0)
    return lengths


UNKNOWN = "<UNK>"
BYTE_ORDER_MARK = "\ufeff"


class Vocabulary:
    """Words and their ids.

    words (Sequence[str]): In the order of the ids; includes `<S>`, `</S>` and `<UNK>`, by convention first. A word that
        is duplicated has the later id, as in bilm-tf.
    RAISES (ValueError): If one of the three is missing.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words: List[str] = list(words)
        self._ids: Dict[str, int] = {word: i for i, word in enumerate(self.words)}
        missing = [word for word in (SENTENCE_BEGIN, SENTENCE_END, UNKNOWN) if word not in self._ids]
        if missing:
            raise ValueError(
                f"The vocabulary is invalid, missing special words: {', '.join(missing)}. A vocabulary has one word "
                "per line, among them `<S>`, `</S>` and `<UNK>`. Use the one that the model was trained with, or "
                "create one with `python -m spacy elmo vocab`."
            )
        self.bos_id = self._ids[SENTENCE_BEGIN]
        self.eos_id = self._ids[SENTENCE_END]
        self.unk_id = self._ids[UNKNOWN]

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> "Vocabulary":
        """From one word per line, with or without line ends; an initial byte order mark is skipped."""
        words = [line.rstrip("\r\n") for line in lines]
        return cls([words[0].removeprefix(BYTE_ORDER_MARK), *words[1:]] if words else words)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.words == other.words

    def ids(self, words: Iterable[str]) -> NDArray[np.int64]:
        """The id of each word; unknown words have the id of `<UNK>`."""
        return np.fromiter((self._ids.get(word, self.unk_id) for word in words), dtype="int64")


class _WordNumbers(Dict[str, int]):
    """A word that is looked up for the first time gets the next number. `words` has them by number."""

    def __init__(self) -> None:
        super().__init__()
        self.words: List[str] = []

    def __missing__(self, word: str) -> int:
        word_number = self[word] = len(self.words)
        self.words.append(word)
        return word_number


class WordTable:
    """Numbers words in the order of their first occurrence; `<S>` is 0 and `</S>` is 1."""

    BEGIN = 0
    END = 1

    def __init__(self) -> None:
        self._numbers = _WordNumbers()
        self.numbers_of((SENTENCE_BEGIN, SENTENCE_END))

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def words(self) -> List[str]:
        """The words by number, `<S>` and `</S>` first; new words are added to it."""
        return self._numbers.words

    def numbers_of(self, words: Iterable[str]) -> Ids:
        """The numbers of words; new words are added."""
        return np.fromiter(map(self._numbers.__getitem__, words), dtype="int64")


class SpelledWords:
    """Character ids and targets of numbered words, `<S>` and `</S>` first.

    content (NDArray): UTF-8 bytes of the words, each with one byte that follows it, such as a line end.
    offsets (NDArray): Shape (U + 1,), the first byte of each word, and the number of bytes.
    targets (NDArray): Shape (U,), vocabulary ids.
    max_characters (int): C, see `character_ids`.
    """

    def __init__(
        self, content: NDArray[np.uint8], offsets: Ids, targets: NDArray[Any], max_characters: int = 50
    ) -> None:
        self.max_characters = max_characters
        self._content, self._offsets, self._targets = content, offsets, targets

    def __len__(self) -> int:
        return len(self._targets)

    @classmethod
    def from_words(cls, words: Sequence[str], vocabulary: Vocabulary, max_characters: int = 50) -> "SpelledWords":
        """words (Sequence[str]): By number, as in a `WordTable`."""
        lines = [f"{word}\n".encode("utf8", "surrogatepass") for word in words]
        offsets = np.cumsum([0, *map(len, lines)])
        return cls(np.frombuffer(b"".join(lines), "uint8"), offsets, vocabulary.ids(words), max_characters)

    def lengths(self, numbers: Ids) -> Ids:
        """The number of character ids of each word without padding."""
        n_bytes = self._offsets[numbers + 1] - self._offsets[numbers] - 1
        lengths: Ids = np.where(numbers <= WordTable.END, 1, np.minimum(n_bytes, self.max_characters - 2)) + 2
        return lengths

    def characters(self, numbers: Ids) -> NDArray[np.int16]:
        """Character ids (U, C) of numbered words, shifted by one."""
        sizes = self.lengths(numbers) - 2
        rows = _rows_of_bytes(self._content[ranges(self._offsets[numbers], sizes)], sizes, self.max_characters)
        is_boundary = numbers <= WordTable.END
        rows[is_boundary, 1] = BOS_CHARACTER + 1 + numbers[is_boundary]  # EOS has the next id
        return rows

    def targets(self, numbers: Ids) -> Ids:
        """Vocabulary ids of numbered words, in the shape of `numbers`."""
        return self._targets[numbers].astype("int64")
