"""`dump_bilm_embeddings` and `dump_token_embeddings` of bilm-tf: files of vectors."""

from io import StringIO
from typing import List

import numpy as np

from ...inference.isolation import isolated
from ...weights.sources import Source
from ..arguments import PathLike, check_file
from ..hdf5 import new_hdf5
from .data import Batcher, UnicodeCharsVocabulary
from .model import EMBEDDING, BidirectionalLanguageModel

WORDS_AT_ONCE = 1024


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
    text = Source(check_file("dataset_file", dataset_file)).read_text()
    model = BidirectionalLanguageModel(options_file, weight_file, max_batch_size=1)
    batcher = Batcher(vocab_file, _max_characters(model))
    with new_hdf5(outfile) as file:
        for number, line in enumerate(StringIO(text, newline=None)):
            layers = model(batcher.batch_sentences([line.split()]))["lm_embeddings"][0]
            file.create_dataset(str(number), data=layers, dtype="float32")


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
    vocabulary = UnicodeCharsVocabulary(vocab_file, _max_characters(model))
    words = [vocabulary.id_to_word(number) for number in range(vocabulary.size)]
    ids = np.stack([vocabulary.word_to_char_ids(word) for word in words]).astype("int64") + 1
    parts: List[np.ndarray] = [
        model._encode(ids[start : start + WORDS_AT_ONCE]).numpy() for start in range(0, len(ids), WORDS_AT_ONCE)
    ]
    with new_hdf5(outfile) as file:
        file.create_dataset(EMBEDDING, data=np.concatenate(parts), dtype="float32")


def _max_characters(model: BidirectionalLanguageModel) -> int:
    characters = model.config.char_cnn
    assert characters is not None  # checked by the model
    return characters.max_characters
