"""Character codecs: they convert words to character ids. The config of a biLM selects one by name."""

from typing import Callable, Dict, Protocol, Sequence, Tuple

from .characters import PAD_CHARACTER, Ids, character_ids


class CharacterCodec(Protocol):
    """Converts words to rows of character ids. Id 0 is the mask and occurs in no word.

    max_characters (int): C, ids per row.
    n_characters (int): Largest id.
    """

    max_characters: int
    n_characters: int

    def encode(self, words: Sequence[str]) -> Tuple[Ids, Ids]:
        """words (Sequence[str]): U words; `<S>` and `</S>` are BOS and EOS.
        RETURNS (Tuple[Ids, Ids]): Character ids (U, C), and the number of ids of each word without padding (U,).
        """


class Utf8Codec:
    """UTF-8 bytes between begin-of-word and end-of-word ids, as in bilm-tf and AllenNLP.

    max_characters (int): C.
    """

    padding = PAD_CHARACTER + 1  # ids are shifted by one
    n_characters = PAD_CHARACTER + 1

    def __init__(self, max_characters: int) -> None:
        self.max_characters = max_characters

    def encode(self, words: Sequence[str]) -> Tuple[Ids, Ids]:
        """See `CharacterCodec.encode`."""
        rows = character_ids(words, self.max_characters)
        return rows, (rows != self.padding).sum(axis=1)


CODECS: Dict[str, Callable[[int], CharacterCodec]] = {"utf8": Utf8Codec}


def make_codec(name: str = "utf8", max_characters: int = 50) -> CharacterCodec:
    """name (str): `CharCNNConfig.codec`.
    max_characters (int): `CharCNNConfig.max_characters`.
    RETURNS (CharacterCodec): The codec.
    """
    return CODECS[name](max_characters)
