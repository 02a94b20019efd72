"""`ElmoEmbedder` of AllenNLP 0.9: vectors as NumPy arrays, and files of them."""

import json
from itertools import islice
from typing import IO, Dict, Iterable, Iterator, List, Optional, Tuple

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import Errors
from ...inference.isolation import isolated
from ...nn.inputs import which_are_words
from ..arguments import ConfigurationError, PathLike, check_count, read_sentences
from ..hdf5 import new_hdf5
from .bilm import ElmoBiLm
from .files import DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE
from .indexer import ELMoTokenCharactersIndexer, batch_to_ids

DEFAULT_BATCH_SIZE = 64
OUTPUT_FORMATS = ("all", "top", "average")

Array = NDArray[np.float32]


class ElmoEmbedder:
    """The layers of tokenized sentences. The state of the LSTMs is carried from batch to batch and from call to call,
    so that the same sentence gives other vectors the second time.

    options_file (Optional[PathLike]), weight_file (Optional[PathLike]): See `Elmo`. AllenNLP downloads the default
        files; here they have to be replaced by paths.
    cuda_device (int): Number of a GPU, -1 for the CPU.
    RAISES (ValueError): See `Elmo`.
    """

    def __init__(
        self,
        options_file: Optional[PathLike] = DEFAULT_OPTIONS_FILE,
        weight_file: Optional[PathLike] = DEFAULT_WEIGHT_FILE,
        cuda_device: int = -1,
    ) -> None:
        self.indexer = ELMoTokenCharactersIndexer()
        self.elmo_bilm = ElmoBiLm(options_file, weight_file)
        self.cuda_device = cuda_device
        if cuda_device >= 0:
            if cuda_device >= torch.cuda.device_count():
                wanted = f"-1 for the CPU, or the number of one of the {torch.cuda.device_count()} GPUs of this machine"
                raise ConfigurationError(Errors.EL332.format(name="cuda_device", value=cuda_device, wanted=wanted))
            self.elmo_bilm.cuda(cuda_device)

    @isolated
    def batch_to_embeddings(self, batch: List[List[str]]) -> Tuple[Tensor, Tensor]:
        """batch (List[List[str]]): Tokens of each sentence; a string is a sentence of characters.
        RETURNS (Tuple[Tensor, Tensor]): Padded layers (B, L+1, T, 2P) and the mask (B, T).
        RAISES (ValueError): EL011 for input that is not tokenized, EL252 for a batch without sentences.
        """
        layers, mask = self._encode(batch)
        padded = layers[0].new_zeros(len(mask), len(layers), mask.shape[1], layers[0].shape[1])
        for k, rows in enumerate(layers):
            padded[:, k][mask] = rows
        return padded, mask

    def refresh(self) -> None:
        """Discard everything derived from the weights, see `BiLM.refresh`."""
        self.elmo_bilm.refresh()

    def embed_sentence(self, sentence: List[str]) -> Array:
        """sentence (List[str]): Tokens, or a string: a sentence of characters.
        RETURNS (Array): Shape (L+1, T, 2P).
        RAISES (ValueError): EL011 for input that is not tokenized.
        """
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: List[List[str]]) -> List[Array]:
        """batch (List[List[str]]): See `batch_to_embeddings`. A batch with nothing but one empty sentence does not
            change the state.
        RETURNS (List[Array]): Shape (L+1, T, 2P) for each sentence.
        RAISES (ValueError): EL011 for input that is not tokenized, EL252 for a batch without sentences.
        """
        batch = read_sentences(batch)
        if batch == [[]]:
            return [np.zeros((self.elmo_bilm.num_layers, 0, self.elmo_bilm.get_output_dim()), dtype="float32")]
        layers, mask = self._encode(batch)
        sentences = torch.stack(layers).cpu().split(mask.sum(dim=1).tolist(), dim=1)
        return [rows.numpy().copy() for rows in sentences]

    @torch.no_grad()
    @isolated
    def _encode(self, batch: List[List[str]]) -> Tuple[List[Tensor], Tensor]:
        """RETURNS (Tuple[List[Tensor], Tensor]): L+1 tensors (N, 2P), all words, and the mask (B, T)."""
        layers, mask = self.elmo_bilm.encode(batch_to_ids(batch, self.elmo_bilm.max_characters))
        is_word = which_are_words(mask)
        return [rows[is_word] for rows in layers], mask[:, 2:]

    def embed_sentences(self, sentences: Iterable[List[str]], batch_size: int = DEFAULT_BATCH_SIZE) -> Iterator[Array]:
        """sentences (Iterable[List[str]]): See `batch_to_embeddings`.
        batch_size (int): Sentences computed at once, which is also the number of rows of the state.
        YIELDS (Array): Shape (L+1, T, 2P) for each sentence.
        RAISES (ValueError): EL011 for input that is not tokenized, EL332 for a batch size below 1.
        """
        check_count("batch_size", batch_size)
        iterator = iter(sentences)
        while batch := list(islice(iterator, batch_size)):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: IO[str],
        output_file_path: PathLike,
        output_format: str = "all",
        batch_size: int = DEFAULT_BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Write one dataset for each line, named by its number, from 0. An existing file is replaced, as in AllenNLP.

        input_file (IO[str]): Open file with one sentence per line, tokens between spaces. It is closed.
        output_file_path (PathLike): HDF5 file to write.
        output_format (str): "all" (L+1, T, 2P), "top" (T, 2P) or "average" (T, 2P).
        batch_size (int): See `embed_sentences`.
        forget_sentences (bool): Leave out the dataset `sentence_to_index`, JSON from sentence to name.
        use_sentence_keys (bool): Name each dataset by its sentence; then there is no `sentence_to_index`.
        RAISES (ValueError): EL332 for an unknown format, EL336 for empty lines, EL337 for sentences that cannot be
            names.
        """
        if output_format not in OUTPUT_FORMATS:
            value, wanted = repr(output_format), f"one of {OUTPUT_FORMATS}"
            raise ConfigurationError(Errors.EL332.format(name="output_format", value=value, wanted=wanted))
        sentences = _read_lines(input_file)
        keys = [str(i) for i in range(len(sentences))]
        if use_sentence_keys:
            _check_keys(sentences)
            keys = sentences
        found = self.embed_sentences((sentence.split() for sentence in sentences), batch_size)
        with new_hdf5(output_file_path) as file:
            for key, layers in zip(keys, found):
                file.create_dataset(key, data=_choose(layers, output_format), dtype="float32")
            if not forget_sentences and not use_sentence_keys:
                _write_index(file, dict(zip(sentences, keys)))
        input_file.close()


def _read_lines(input_file: IO[str]) -> List[str]:
    if isinstance(input_file, str) or not hasattr(input_file, "read"):
        found = f"a {type(input_file).__name__}"
        wanted = "an open text file, such as open(path, encoding='utf8')"
        raise ConfigurationError(Errors.EL332.format(name="input_file", value=found, wanted=wanted))
    sentences = [line.strip() for line in input_file]
    empty = [number for number, sentence in enumerate(sentences, 1) if not sentence]
    if empty:
        raise ConfigurationError(Errors.EL336.format(n_lines=len(empty), first=empty[0]))
    return sentences


def _check_keys(sentences: List[str]) -> None:
    seen = set()
    for sentence in sentences:
        is_name = sentence != "." and "/" not in sentence and "\0" not in sentence  # as HDF5 understands names
        if sentence in seen or not is_name:
            problem = "is there twice" if is_name else "is a dot, or has a slash or a null byte"
            raise ConfigurationError(Errors.EL337.format(sentence=sentence, problem=problem))
        seen.add(sentence)


def _choose(layers: Array, output_format: str) -> Array:
    if output_format == "all":
        return layers
    chosen: Array = layers[-1] if output_format == "top" else layers.mean(axis=0)
    return chosen


def _write_index(file: h5py.File, index: Dict[str, str]) -> None:
    dataset = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
    dataset[0] = json.dumps(index)
