"""bilm-tf without TensorFlow: the same arrays of ids, the same layers and state, the same files of vectors."""

from io import StringIO
from typing import Annotated, Any, Callable, Dict, List, NoReturn, Optional, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from ..bilm.state import BiLMState
from ..errors import Errors
from ..inference.runner import make_runner
from ..inference.runtime import isolated
from ..inference.word_encoder import WordEncoder
from ..nn.inputs import NO_SENTENCES, pad_rows, without_boundaries
from ..settings import Count, Whole
from ..text.words import (
    BOS_CHARACTER,
    BOW_CHARACTER,
    EOS_CHARACTER,
    EOW_CHARACTER,
    PAD_CHARACTER,
    Utf8Codec,
    character_ids,
)
from ..text.words import SENTENCE_BEGIN as BOS
from ..text.words import SENTENCE_END as EOS
from ..text.words import UNKNOWN as UNK
from ..weights import load_bilm
from ..weights.archive import File
from ..weights.formats.bilm_tf import WORD_TABLE, read_token_embeddings
from .common import (
    PathLike,
    add_dataset,
    add_submodules,
    check_argument,
    check_file,
    invalid,
    new_hdf5,
    read_sentences,
    run_sequences,
)

__all__ = [
    "Batcher",
    "BidirectionalLanguageModel",
    "TokenBatcher",
    "UnicodeCharsVocabulary",
    "Vocabulary",
    "dump_bilm_embeddings",
    "dump_token_embeddings",
    "weight_layers",
]

WordLength = Annotated[Whole, Field(ge=3)]  # begin of word, one character, end of word
SKIPPED = "!!!MAXTERMID"  # a line of old vocabulary files that is not a word
WORDS_AT_ONCE = 1024  # while the vectors of a vocabulary are computed

Ids = NDArray[np.int64]


class Vocabulary:
    """Words and their ids: the numbers of the lines.

    bos (int), eos (int), unk (int): Attributes: ids of `<S>`, `</S>` and `<UNK>`.
    size (int): Attribute: number of words.
    filename (Optional[PathLike]): One word per line, UTF-8, with `<S>`, `</S>` and `<UNK>`; None for these three words,
        which is enough for character ids.
    validate_file (bool): Require these three; otherwise the id of a missing word is -1.
    RAISES (ValueError): For a path without a file, and for a file without one of the three words.
    """

    def __init__(self, filename: Optional[PathLike], validate_file: bool = False) -> None:
        words = [BOS, EOS, UNK]
        if filename is not None:
            text = File(check_file("vocabulary file", filename)).read_text()
            words = [line.strip() for line in StringIO(text, newline=None)]
        self._id_to_word = [word for word in words if word != SKIPPED]
        self._word_to_id: Dict[str, int] = {word: i for i, word in enumerate(self._id_to_word)}
        self.bos, self.eos, self.unk = (self._word_to_id.get(word, -1) for word in (BOS, EOS, UNK))
        self.size = len(self._id_to_word)
        missing = [word for word in (BOS, EOS, UNK) if word not in self._word_to_id]
        if validate_file and missing:
            actual = f"a file without {' and '.join(missing)}"
            raise invalid("vocabulary", actual, f"a file with {BOS}, {EOS} and {UNK}")

    def word_to_id(self, word: str) -> int:
        """RETURNS (int): Id of the word, or of `<UNK>` if it is not in the vocabulary."""
        return self._word_to_id.get(word, self.unk)

    def id_to_word(self, cur_id: int) -> str:
        """RETURNS (str): The word with this id."""
        return self._id_to_word[cur_id]

    def decode(self, cur_ids: Sequence[int]) -> str:
        """RETURNS (str): The words with these ids, with spaces between them."""
        return " ".join(self.id_to_word(word_id) for word_id in cur_ids)

    def encode(self, sentence: Sequence[str], reverse: bool = False, split: bool = True) -> NDArray[np.int32]:
        """sentence (Sequence[str]): A string with spaces between the words; with split=False a list of words.
        reverse (bool): The words are in reverse order, so that `</S>` comes first.
        RETURNS (NDArray[np.int32]): Shape (words + 2,), ids of the words, `<S>` and `</S>`.
        """
        ids = [self.word_to_id(word) for word in _words(sentence, split)]
        first, last = (self.eos, self.bos) if reverse else (self.bos, self.eos)
        return np.array([first, *ids, last], dtype=np.int32)


class UnicodeCharsVocabulary(Vocabulary):
    """A vocabulary with character ids. As in bilm-tf these are not shifted by one; `Batcher` shifts them.

    word_char_ids (NDArray[np.int32]): Attribute: shape (V, C), the ids of all words.
    filename (Optional[PathLike]), validate_file (bool): See `Vocabulary`.
    max_word_length (int): C, ids per word; longer words are truncated to C - 2 bytes.
    RAISES (ValueError): See `Vocabulary`; for a `max_word_length` below 3.
    """

    bos_char, eos_char, bow_char, eow_char = BOS_CHARACTER, EOS_CHARACTER, BOW_CHARACTER, EOW_CHARACTER
    pad_char = PAD_CHARACTER

    def __init__(self, filename: Optional[PathLike], max_word_length: int, validate_file: bool = False) -> None:
        super().__init__(filename, validate_file)
        self.max_word_length: int = check_argument("max_word_length", max_word_length, WordLength)
        self.bos_chars, self.eos_chars = map(self._convert_word_to_char_ids, (BOS, EOS))
        self.word_char_ids = (character_ids(self._id_to_word, max_word_length) - 1).astype(np.int32)

    def word_to_char_ids(self, word: str) -> NDArray[np.int32]:
        """RETURNS (NDArray[np.int32]): Shape (C,); words that are not in the vocabulary are spelled."""
        if word in self._word_to_id:
            row: NDArray[np.int32] = self.word_char_ids[self._word_to_id[word]]
            return row
        return self._convert_word_to_char_ids(word)

    def encode_chars(self, sentence: Sequence[str], reverse: bool = False, split: bool = True) -> NDArray[np.int32]:
        """sentence (Sequence[str]), reverse (bool), split (bool): See `encode`.
        RETURNS (NDArray[np.int32]): Shape (words + 2, C), ids of the words, `<S>` and `</S>`.
        """
        rows = [self.word_to_char_ids(word) for word in _words(sentence, split)]
        first, last = (self.eos_chars, self.bos_chars) if reverse else (self.bos_chars, self.eos_chars)
        return np.vstack([first, *rows, last])

    def _convert_word_to_char_ids(self, word: str) -> NDArray[np.int32]:
        row: NDArray[np.int32] = (character_ids([word], self.max_word_length)[0] - 1).astype(np.int32)
        return row


class Batcher:
    """Sentences to character ids.

    lm_vocab_file (Optional[PathLike]): See `Vocabulary`.
    max_token_length (int): C, `max_characters_per_token` of the options.
    RAISES (ValueError): See `UnicodeCharsVocabulary`.
    """

    def __init__(self, lm_vocab_file: Optional[PathLike], max_token_length: int) -> None:
        self._lm_vocab = UnicodeCharsVocabulary(lm_vocab_file, max_token_length)
        self._max_token_length = max_token_length

    def batch_sentences(self, sentences: List[List[str]]) -> NDArray[np.int64]:
        """sentences (List[List[str]]): Tokens of each sentence, without boundaries; a string is a sentence of
            characters.
        RETURNS (NDArray[np.int64]): Shape (B, T + 2, C), ids shifted by one, with `<S>` and `</S>`; zeros for padding.
        RAISES (ValueError): EL011 for input that is not tokenized; for a batch without sentences.
        """
        return _stack(sentences, self._lm_vocab.encode_chars, self._max_token_length)


class TokenBatcher:
    """Sentences to word ids.

    lm_vocab_file (PathLike): See `Vocabulary`.
    RAISES (ValueError): See `Vocabulary`.
    """

    def __init__(self, lm_vocab_file: PathLike) -> None:
        self._lm_vocab = Vocabulary(lm_vocab_file)

    def batch_sentences(self, sentences: List[List[str]]) -> NDArray[np.int64]:
        """sentences (List[List[str]]): Tokens of each sentence, without boundaries; a string is a sentence of
            characters.
        RETURNS (NDArray[np.int64]): Shape (B, T + 2), ids shifted by one, with `<S>` and `</S>`; zeros for padding.
        RAISES (ValueError): EL011 for input that is not tokenized; for a batch without sentences.
        """
        return _stack(sentences, self._lm_vocab.encode)


def _words(sentence: Sequence[str], split: bool) -> Sequence[str]:
    return sentence.split() if split and isinstance(sentence, str) else sentence


def _stack(sentences: List[List[str]], encode: Callable[..., NDArray[np.int32]], *width: int) -> Ids:
    batch = read_sentences(sentences)
    if not batch:
        raise ValueError(NO_SENTENCES)
    ids = np.zeros((len(batch), max(map(len, batch)) + 2, *width), dtype=np.int64)
    for row, words in zip(ids, batch):
        row[: len(words) + 2] = encode(words, split=False) + 1
    return ids


class BidirectionalLanguageModel:
    """Called with ids, it returns arrays; in bilm-tf it is called with a placeholder and returns operations.

    The state of the LSTMs is carried from call to call, row by row, as in a session of bilm-tf.

    options_file (PathLike): options.json.
    weight_file (PathLike): HDF5 file with the weights.
    use_character_inputs (bool): Read character ids of `Batcher`; otherwise word ids of `TokenBatcher`.
    embedding_weight_file (Optional[PathLike]): For word ids: HDF5 file of `dump_token_embeddings`.
    max_batch_size (int): Rows of the state, and so of a batch.
    RAISES (ValueError): For missing files, invalid arguments, and files that cannot be read.
    """

    @isolated
    def __init__(
        self,
        options_file: PathLike,
        weight_file: PathLike,
        use_character_inputs: bool = True,
        embedding_weight_file: Optional[PathLike] = None,
        max_batch_size: int = 128,
    ) -> None:
        self._max_batch_size = check_argument("max_batch_size", max_batch_size, Count)
        options = check_file("options_file", options_file)
        network = load_bilm(options=options, weights=check_file("weight_file", weight_file)).network
        self.config = network.config
        if self.config.char_cnn is None:
            raise invalid("input of the biLM", "whole words", "characters, with word vectors in embedding_weight_file")
        self._characters = self.config.char_cnn
        self._table: Optional[Tensor] = None
        if not use_character_inputs:
            path = check_file("embedding_weight_file", embedding_weight_file)
            self._table = torch.from_numpy(read_token_embeddings(File(path), self.config.projection_width))
        self._words, self._runner = WordEncoder(network, None, None), make_runner(network)
        self._state = BiLMState.from_state(network.zero_state(max_batch_size))

    @isolated
    def __call__(self, ids_placeholder: Ids) -> Dict[str, Any]:
        """Compute a batch.

        ids_placeholder (Ids): The ids themselves, shape (B, T + 2, C) of `Batcher`, or (B, T + 2) of `TokenBatcher`.
        RETURNS (Dict[str, Any]): `lm_embeddings` (B, L+1, T, D) and `mask` (B, T), without boundaries and with zeros
            for padding; `lengths` (B,); `token_embeddings` (B, T + 2, P).
        RAISES (ValueError): EL017 for invalid ids; for a batch above `max_batch_size`.
        """
        ids = np.asarray(ids_placeholder)
        problem = self._find_problem(ids)
        if problem:
            raise ValueError(Errors.EL017.format(problem=problem))
        ids = ids.astype("int64")
        mask = _find_tokens(ids)  # (B, T + 2)
        lengths = mask.sum(axis=1)
        distinct, inverse = np.unique(ids[mask], axis=0, return_inverse=True)
        vectors, tokens = self._encode(distinct), inverse.reshape(-1).astype("int64")
        rows = self._run(vectors, tokens, lengths)  # (L+1, N, D)
        words, is_word = without_boundaries(rows, torch.from_numpy(mask))
        inner = is_word.numpy()
        layers = np.zeros((len(mask), len(words), inner.shape[1], rows.shape[2]), dtype="float32")
        for k, layer in enumerate(words):  # without another copy of all layers
            layers[:, k][inner] = layer.numpy()
        return {
            "lm_embeddings": layers,
            "lengths": lengths - 2,
            "token_embeddings": pad_rows(vectors[tokens], torch.from_numpy(mask)).numpy(),
            "mask": inner,
        }

    def _run(self, vectors: Tensor, tokens: Ids, lengths: Ids) -> Tensor:
        n = len(lengths)
        start = BiLMState(self._state.h[:, :n], self._state.c[:, :n])
        rows, end = run_sequences(self._runner, vectors, tokens, lengths.tolist(), start)
        self._state.h[:, :n], self._state.c[:, :n] = end.h, end.c
        return rows

    def _encode(self, ids: Ids) -> Tensor:
        """From ids (U, C), or (U,) for word ids, to vectors (U, P)."""
        if self._table is not None:
            return self._table[torch.from_numpy(ids - 1)]
        with torch.no_grad():
            return self._words.encode_ids(ids, Utf8Codec(ids.shape[1]).lengths(ids))

    def _find_problem(self, ids: NDArray[Any]) -> str:
        """What is wrong with ids, empty if nothing is."""
        n_characters, table = self._characters.max_characters, self._table
        expected = f"(B, T + 2, {n_characters}), as `Batcher(vocab_file, {n_characters})` makes them"
        is_fit, largest = ids.ndim == 3 and ids.shape[2] == n_characters, self._characters.n_characters
        if table is not None:
            expected, is_fit, largest = "(B, T + 2)", ids.ndim == 2, len(table)
        if not is_fit:
            return f"they have shape {ids.shape}, should have {expected}"
        if ids.dtype.kind not in "iu":
            return f"they are {ids.dtype}, should be int64"
        if not 0 < len(ids) <= self._max_batch_size:
            return f"they are for {len(ids)} sentences, should be for 1 to max_batch_size ({self._max_batch_size})"
        if not 0 <= ids.min() <= ids.max() <= largest:
            return f"they are {ids.min()} to {ids.max()}, should be 0 to {largest}"
        mask = _find_tokens(ids)
        lengths = mask.sum(axis=1)
        if lengths.min() < 2:
            return f"row {lengths.argmin()} has {lengths.min()} tokens, should have 2 or more: `<S>` and `</S>`"
        if not np.array_equal(mask, np.arange(mask.shape[1]) < lengths[:, None]):
            return "a row of zeros, which is padding, comes before the last token"
        return ""


def weight_layers(*args: Any, **settings: Any) -> NoReturn:
    """In bilm-tf it adds variables to a graph. RAISES (NotImplementedError): With what to use."""
    raise NotImplementedError("`weight_layers` cannot be called here. Use `spacy_elmo.nn.ScalarMix` instead.")


def _find_tokens(ids: Ids) -> NDArray[np.bool_]:
    """Which rows of ids, (B, T + 2), are tokens or boundaries, not padding."""
    return np.asarray((ids > 0).reshape(*ids.shape[:2], -1).any(axis=2))


def dump_bilm_embeddings(
    vocab_file: PathLike, dataset_file: PathLike, options_file: PathLike, weight_file: PathLike, outfile: PathLike
) -> None:
    """Write the layers of each sentence, one dataset (L+1, T, D) per line, named by its number, from 0.

    The state is carried from line to line, as in bilm-tf. An existing file is replaced.

    vocab_file (PathLike): One word per line. It does not change the vectors.
    dataset_file (PathLike): One sentence per line, UTF-8, tokens between spaces; a line may be empty.
    options_file (PathLike), weight_file (PathLike): See `BidirectionalLanguageModel`.
    outfile (PathLike): HDF5 file to write.
    RAISES (ValueError): See `BidirectionalLanguageModel`.
    """
    text = File(check_file("dataset_file", dataset_file)).read_text()
    model = BidirectionalLanguageModel(options_file, weight_file, max_batch_size=1)
    batcher = Batcher(vocab_file, model._characters.max_characters)
    with new_hdf5(outfile, [vocab_file, dataset_file, options_file, weight_file]) as file:
        for i, line in enumerate(StringIO(text, newline=None)):
            layers = model(batcher.batch_sentences([line.split()]))["lm_embeddings"][0]
            add_dataset(file, str(i), layers)


@isolated
def dump_token_embeddings(
    vocab_file: PathLike, options_file: PathLike, weight_file: PathLike, outfile: PathLike
) -> None:
    """Write the vector of each word of a vocabulary: the dataset `embedding`, shape (V, P).

    The file is the `embedding_weight_file` of `BidirectionalLanguageModel`. An existing file is replaced.

    vocab_file (PathLike): One word per line.
    options_file (PathLike), weight_file (PathLike), outfile (PathLike): See `dump_bilm_embeddings`.
    RAISES (ValueError): See `BidirectionalLanguageModel`.
    """
    model = BidirectionalLanguageModel(options_file, weight_file, max_batch_size=1)
    vocabulary = UnicodeCharsVocabulary(vocab_file, model._characters.max_characters)
    words = [vocabulary.id_to_word(word_id) for word_id in range(vocabulary.size)]
    ids = np.stack([vocabulary.word_to_char_ids(word) for word in words]).astype("int64") + 1
    vectors = list(map(model._encode, np.array_split(ids, range(WORDS_AT_ONCE, len(ids), WORDS_AT_ONCE))))
    with new_hdf5(outfile, [vocab_file, options_file, weight_file]) as file:
        add_dataset(file, WORD_TABLE, torch.cat(vectors).numpy())


add_submodules(__name__, {name: globals()[name] for name in __all__}, ("data", "elmo", "model"))
