"""Layers, mixes and vectors of AllenNLP: `ScalarMix`, `_ElmoBiLm`, `Elmo`, `ElmoTokenEmbedder` and `ElmoEmbedder`."""

import json
import logging
from pathlib import Path
from typing import IO, Any, Dict, Iterable, Iterator, List, Literal, Mapping, Optional, Sequence, Tuple

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...files import check_space
from ...inference.runtime import isolated, register_fork_handlers
from ...nn.inputs import is_original, pad_rows, without_boundaries
from ...settings import Count, WholeNumber
from ...text.words import SENTENCE_BEGIN, SENTENCE_END
from ...util import batched
from ..common import (
    ConfigurationError,
    DerivingModule,
    PathLike,
    add_dataset,
    check_argument,
    invalid,
    new_hdf5,
    read_sentences,
)
from .characters import (
    DEFAULT_OPTIONS_FILE,
    DEFAULT_WEIGHT_FILE,
    ElmoCharacterEncoder,
    ELMoTokenCharactersIndexer,
    batch_to_ids,
    boundary_index,
    load_network,
    remove_sentence_boundaries,
)
from .lstm import ElmoLstm

logger = logging.getLogger("spacy_elmo")
DEFAULT_BATCH_SIZE = 64
OutputFormat = Literal["all", "top", "average"]

Array = NDArray[np.float32]


class ScalarMix(nn.Module):
    """gamma * sum_k softmax(w)_k * layer_k. The parameters are `scalar_parameters.k`, shape (1,), and `gamma`, (1,).

    mixture_size (int): Layers to mix.
    do_layer_norm (bool): First normalize each layer over all elements of the batch inside the mask.
    initial_scalar_parameters (Optional[Sequence[float]]): w at the start; None for equal shares.
    trainable (bool): Learn w and gamma.
    RAISES (ConfigurationError): For another number of initial parameters.
    """

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Optional[Sequence[float]] = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        self.mixture_size, self.do_layer_norm = mixture_size, do_layer_norm
        initial = [0.0] * mixture_size if initial_scalar_parameters is None else list(initial_scalar_parameters)
        if len(initial) != mixture_size:
            raise invalid("initial_scalar_parameters", initial, f"{mixture_size} numbers, one per layer")
        values = [torch.tensor([float(value)], dtype=torch.float32) for value in initial]
        self.scalar_parameters = nn.ParameterList([nn.Parameter(value, requires_grad=trainable) for value in values])
        self.gamma = nn.Parameter(torch.tensor([1.0], dtype=torch.float32), requires_grad=trainable)

    def forward(self, tensors: Sequence[Tensor], mask: Optional[Tensor] = None) -> Tensor:
        """tensors (Sequence[Tensor]): One tensor (..., D) per layer.
        mask (Optional[Tensor]): Shape (...), True for tokens. It is used, and needed, only with `do_layer_norm`.
        RETURNS (Tensor): Shape (..., D).
        RAISES (ConfigurationError): For another number of layers, or without a mask for the norm.
        """
        register_fork_handlers()
        if len(tensors) != self.mixture_size or (self.do_layer_norm and mask is None):
            shown = f"{len(tensors)} layers {'without' if mask is None else 'with'} a mask"
            raise invalid("input of the mix", shown, f"{self.mixture_size} layers, with a mask for do_layer_norm")
        layers: List[Tensor] = list(tensors)
        if self.do_layer_norm and mask is not None:
            layers = [normalize(layer, mask) for layer in layers]
        shares = torch.cat(list(self.scalar_parameters)).softmax(dim=0)
        mixed = torch.stack([share * layer for share, layer in zip(shares, layers)]).sum(dim=0)
        return self.gamma * mixed


def normalize(layer: Tensor, mask: Tensor) -> Tensor:
    """Subtract from a layer (..., D) the mean of all elements inside the mask (...), and divide by their standard
    deviation. Values outside the mask are shifted and scaled, too.
    """
    inside = mask.unsqueeze(-1).to(layer.dtype)
    n_values = inside.sum() * layer.shape[-1]
    mean = (layer * inside).sum() / n_values
    variance = ((layer - mean) * inside).square().sum() / n_values
    epsilon = 1e-13 if layer.dtype in (torch.float32, torch.float64) else 1e-4
    return (layer - mean) / torch.sqrt(variance + epsilon)


class ElmoBiLm(DerivingModule):
    """A biLM with the interface, parameter names and state of AllenNLP's `_ElmoBiLm`.

    The LSTM state is carried from batch to batch, row by row: the same sentence gives other vectors the second time.
    `_elmo_lstm.reset_states()` makes it zero.

    options_file (Optional[PathLike]), weight_file (Optional[PathLike]), requires_grad (bool), vocab_to_cache
        (Optional[List[str]]): See `Elmo`.
    RAISES (ValueError): See `Elmo`.
    """

    @isolated
    def __init__(
        self,
        options_file: Optional[PathLike],
        weight_file: Optional[PathLike],
        requires_grad: bool = False,
        vocab_to_cache: Optional[List[str]] = None,
    ) -> None:
        super().__init__()
        network = load_network(options_file, weight_file)
        self._token_embedder = ElmoCharacterEncoder.from_network(network, requires_grad)
        self._requires_grad = requires_grad
        self._word_embedding: Optional[nn.Embedding] = None
        self.register_buffer("_bos_embedding", None, persistent=False)
        self.register_buffer("_eos_embedding", None, persistent=False)
        if vocab_to_cache:
            if requires_grad:
                logger.warning("The biLM is trained, so the cached word vectors will differ from computed vectors.")
            self.create_cached_cnn_embeddings(vocab_to_cache)
        self._elmo_lstm = ElmoLstm.from_network(network, requires_grad)
        self.num_layers = network.config.n_layers + 1

    @property
    def max_characters(self) -> int:
        """RETURNS (int): C, `max_characters_per_token` of the options: ids of a word."""
        return int(self._token_embedder.max_characters)

    def get_output_dim(self) -> int:
        """RETURNS (int): 2P."""
        return 2 * self._token_embedder.get_output_dim()

    @isolated
    def forward(self, inputs: Tensor, word_inputs: Optional[Tensor] = None) -> Dict[str, Any]:
        """inputs (Tensor): Shape (B, T, C), character ids; rows of zeros are padding.
        word_inputs (Optional[Tensor]): Shape (B, T), indices into `vocab_to_cache`, 0 for padding. Without a cache, or
            with words that are not in it, the character ids are used.
        RETURNS (Dict[str, Any]): `activations`, L+1 tensors (B, T + 2, 2P), and `mask` (B, T + 2).
        RAISES (ValueError): EL017 for invalid ids; for a batch without sentences.
        """
        layers, mask = self.encode(inputs, word_inputs)
        return {"activations": [pad_rows(rows, mask) for rows in layers], "mask": mask}

    @isolated
    def encode(self, inputs: Tensor, word_inputs: Optional[Tensor] = None) -> Tuple[List[Tensor], Tensor]:
        """Compute the layers without padding, see `forward`: L+1 tensors (N, 2P), the rows of one sentence after the
        other, and the mask (B, T + 2), which is True at N places.
        """
        self.warn_of_hooks()
        table, index, mask = self._look_up(word_inputs) or self._token_embedder.encode(inputs)
        first = table[index[mask]]  # (N, P)
        return [torch.cat([first, first], dim=-1), *self._elmo_lstm.encode(table, index)], mask

    @isolated
    @torch.no_grad()
    def create_cached_cnn_embeddings(self, tokens: List[str]) -> None:
        """Compute the vectors of words once, for `word_inputs`.

        tokens (List[str]): Words in the order of their indices. The first stands for padding: its vector is zero.
        """
        boundaries = [SENTENCE_BEGIN, SENTENCE_END]
        ids = batch_to_ids([[*boundaries, *tokens]], self.max_characters)
        rows = self._token_embedder(ids)["token_embedding"][0, 1:-1]
        self._bos_embedding, self._eos_embedding = rows[0], rows[1]
        weight = rows[2:].clone()
        weight[:1] = 0.0
        self._word_embedding = nn.Embedding.from_pretrained(weight, freeze=not self._requires_grad, padding_idx=0)

    def _look_up(self, word_inputs: Optional[Tensor]) -> Optional[Tuple[Tensor, Tensor, Tensor]]:
        """See `ElmoCharacterEncoder.encode`."""
        if self._word_embedding is None or word_inputs is None:
            return None
        if word_inputs.dim() != 2 or word_inputs.is_floating_point():
            shape = f"shape {tuple(word_inputs.shape)}, {word_inputs.dtype}"
            raise invalid("word_inputs", shape, "(B, T), torch.int64")
        if word_inputs.numel() and not 0 <= int(word_inputs.min()) <= int(word_inputs.max()) < len(
            self._word_embedding.weight
        ):
            return None
        table = torch.cat([self._bos_embedding[None], self._eos_embedding[None], self._word_embedding.weight])
        index, mask = boundary_index(word_inputs.long() + 2, word_inputs > 0)
        return table, index.to(table.device), mask.to(table.device)


class Elmo(DerivingModule):
    """Mixed layers of a biLM, with the parameters, outputs and state of AllenNLP's module.

    The state of the LSTMs is carried from batch to batch, row by row. `spacy_elmo.nn.Elmo` starts every sentence from
    the same state.

    options_file (Optional[PathLike]): options.json.
    weight_file (Optional[PathLike]): HDF5 file with the weights. With None as `options_file` everything that
        `load_bilm` takes, such as "en_elmo_sm" or a folder in any format.
    num_output_representations (int): Mixes, each with parameters of its own.
    requires_grad (bool): Train the biLM.
    do_layer_norm (bool): Normalize each layer over all tokens of the batch, `<S>` and `</S>` included, before the mix.
    dropout (float): Dropout of the mixed vectors in training.
    vocab_to_cache (Optional[List[str]]): Words whose vectors are computed once, for `word_inputs`. The first stands for
        padding.
    keep_sentence_boundaries (bool): Keep the rows of `<S>` and `</S>`.
    scalar_mix_parameters (Optional[List[float]]): Weights of the layers before the softmax, which are not trained.
    module (Optional[nn.Module]): Used instead of a biLM from files: has `num_layers`, and gives `activations` and
        `mask`.
    RAISES (ValueError): For a URL, a biLM that the module cannot hold, invalid arguments, files and a module together,
        and files that are missing or cannot be read.
    """

    @isolated
    def __init__(
        self,
        options_file: Optional[PathLike],
        weight_file: Optional[PathLike],
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Optional[List[str]] = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Optional[List[float]] = None,
        module: Optional[nn.Module] = None,
    ) -> None:
        super().__init__()
        check_argument("num_output_representations", num_output_representations, WholeNumber)
        if module is not None and (options_file is not None or weight_file is not None):
            raise ConfigurationError("Elmo takes either files or module; found both. Pass one of them.")
        self._elmo_lstm: Any = module
        if module is None:
            self._elmo_lstm = ElmoBiLm(options_file, weight_file, requires_grad, vocab_to_cache)
        self._has_cached_vocab = vocab_to_cache is not None
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(p=dropout)
        self._n_mixes = num_output_representations
        for k in range(num_output_representations):
            is_learned = scalar_mix_parameters is None
            mix = ScalarMix(self._elmo_lstm.num_layers, do_layer_norm, scalar_mix_parameters, trainable=is_learned)
            self.add_module(f"scalar_mix_{k}", mix)

    @classmethod
    def from_params(cls, *args: Any, **extras: Any) -> "Elmo":
        """args (Any), extras (Any): `params`, the arguments as a block of an AllenNLP config has them, and maybe
            `vocab`, by position or by name, in any order: (params) and (params, vocab=vocab) of AllenNLP 2,
            (vocab, params) of 0.9. Other extras are ignored.
        RETURNS (Elmo): The module.
        RAISES (ConfigurationError): Without `params`, or for `namespace_to_cache` without a vocabulary.
        """
        return cls(**_to_arguments(args, extras))

    @property
    def _scalar_mixes(self) -> List[nn.Module]:
        return [self.get_submodule(f"scalar_mix_{k}") for k in range(self._n_mixes)]

    def get_output_dim(self) -> int:
        """RETURNS (int): 2P, the width of a representation."""
        return int(self._elmo_lstm.get_output_dim())

    def forward(self, inputs: Tensor, word_inputs: Optional[Tensor] = None) -> Dict[str, Any]:
        """inputs (Tensor): Shape (B, T, C), character ids from `batch_to_ids`; or with more dimensions in front.
        word_inputs (Optional[Tensor]): Shape (B, T), indices into `vocab_to_cache`; or with more dimensions in front.
        RETURNS (Dict[str, Any]): `elmo_representations`, one tensor (B, T, 2P) for each mix, and `mask` (B, T) bool.
            With `keep_sentence_boundaries` T + 2 instead of T.
        RAISES (ValueError): EL017 for invalid ids; for a batch without sentences.
        """
        shape = _outer_shape(inputs, word_inputs)
        flat = inputs.reshape(-1, *inputs.shape[-2:]) if getattr(inputs, "ndim", 0) > 3 else inputs
        mixes, words = self._scalar_mixes, self._flat_words(word_inputs)
        if is_original(self._elmo_lstm, ElmoBiLm) and all(map(self._leaves_padding_zero, mixes)):
            mixed, mask = self._mix_packed(mixes, *self._elmo_lstm.encode(flat, words))
        else:
            output = self._elmo_lstm(flat, words)
            layers, mask = output["activations"], output["mask"]
            mixed = [mix(layers, mask) for mix in mixes]
            if not self._keep_sentence_boundaries:
                mixed = [remove_sentence_boundaries(rows, mask)[0] for rows in mixed]
                mask = mask[:, 2:] != 0
        dropped = [self._dropout(rows) for rows in mixed]
        if shape:
            mask = mask.view(*shape, -1)
            dropped = [rows.view(*shape, *rows.shape[1:]) for rows in dropped]
        return {"elmo_representations": dropped, "mask": mask}

    def _leaves_padding_zero(self, mix: Any) -> bool:
        """In AllenNLP the layer norm also shifts and scales the padding, which is cut off with the boundaries."""
        return is_original(mix, ScalarMix) and not (mix.do_layer_norm and self._keep_sentence_boundaries)

    def _mix_packed(self, mixes: List[nn.Module], layers: List[Tensor], mask: Tensor) -> Tuple[List[Tensor], Tensor]:
        """Mix layers (N, 2P) without padding, which would take more memory than all else where lengths differ much,
        from the mask (B, T + 2) to padded representations and their mask.
        """
        mixed = [mix(layers, mask[mask]) for mix in mixes]
        if not self._keep_sentence_boundaries:
            mixed, mask = without_boundaries(mixed, mask)
        return [pad_rows(rows, mask) for rows in mixed], mask

    def _flat_words(self, word_inputs: Optional[Tensor]) -> Optional[Tensor]:
        if word_inputs is None or self._has_cached_vocab:
            has_more = word_inputs is not None and word_inputs.dim() > 2
            return word_inputs.reshape(-1, word_inputs.shape[-1]) if has_more else word_inputs  # type: ignore[union-attr]  # not None
        logger.warning("word_inputs are not used: the module was made without vocab_to_cache.")
        return None


class ElmoTokenEmbedder(DerivingModule):
    """One mix of the layers, and optionally a projection: the token embedder of AllenNLP.

    options_file (Optional[PathLike]), weight_file (Optional[PathLike]), do_layer_norm (bool), dropout (float),
        requires_grad (bool), vocab_to_cache (Optional[List[str]]), scalar_mix_parameters (Optional[List[float]]): See
        `Elmo`. AllenNLP downloads the default files; here they have to be replaced by paths.
    projection_dim (Optional[int]): Width of a linear projection of the vectors; None for no projection.
    RAISES (ValueError): See `Elmo`.
    """

    @isolated
    def __init__(
        self,
        options_file: Optional[PathLike] = DEFAULT_OPTIONS_FILE,
        weight_file: Optional[PathLike] = DEFAULT_WEIGHT_FILE,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: Optional[int] = None,
        vocab_to_cache: Optional[List[str]] = None,
        scalar_mix_parameters: Optional[List[float]] = None,
    ) -> None:
        super().__init__()
        self._elmo = Elmo(
            options_file,
            weight_file,
            1,
            do_layer_norm=do_layer_norm,
            dropout=dropout,
            requires_grad=requires_grad,
            vocab_to_cache=vocab_to_cache,
            scalar_mix_parameters=scalar_mix_parameters,
        )
        self._projection: Optional[nn.Linear] = None
        self.output_dim = self._elmo.get_output_dim()
        if projection_dim:
            self._projection = nn.Linear(self.output_dim, projection_dim, dtype=torch.float32)
            self.output_dim = projection_dim

    @classmethod
    def from_params(cls, *args: Any, **extras: Any) -> "ElmoTokenEmbedder":
        """See `Elmo.from_params`. With `namespace_to_cache` the words of this namespace of `vocab` are cached."""
        return cls(**_to_arguments(args, extras))

    def get_output_dim(self) -> int:
        """RETURNS (int): `projection_dim`, or 2P without a projection."""
        return self.output_dim

    @isolated
    def forward(self, elmo_tokens: Tensor, word_inputs: Optional[Tensor] = None) -> Tensor:
        """elmo_tokens (Tensor), word_inputs (Optional[Tensor]): See `Elmo.forward`.
        RETURNS (Tensor): Shape (B, T, `output_dim`).
        RAISES (ValueError): See `Elmo.forward`.
        """
        vectors: Tensor = self._elmo(elmo_tokens, word_inputs)["elmo_representations"][0]
        return vectors if self._projection is None else self._projection(vectors)


def _to_arguments(args: Sequence[Any], extras: Mapping[str, Any]) -> Dict[str, Any]:
    """The arguments of the module, see `Elmo.from_params`."""
    params = next((value for value in (extras.get("params"), *args) if isinstance(value, Mapping)), None)
    if params is None:
        expected = "the arguments by their names, in a dictionary or in Params of AllenNLP"
        raise invalid("params of `from_params`", "missing", expected)
    arguments = {name: params[name] for name in params if name != "type"}
    namespace = arguments.pop("namespace_to_cache", None)
    if namespace is not None:
        vocab = extras.get("vocab", next((value for value in args if value is not params), None))
        arguments["vocab_to_cache"] = list(vocab.get_token_to_index_vocabulary(namespace))
    return arguments


def _outer_shape(inputs: Tensor, word_inputs: Optional[Tensor]) -> Tuple[int, ...]:
    """The dimensions before the tokens if there is more than one, else nothing."""
    if word_inputs is not None and word_inputs.dim() > 2:
        return tuple(word_inputs.shape[:-1])
    return tuple(inputs.shape[:-2]) if getattr(inputs, "ndim", 0) > 3 else ()


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
        self._files = [file for file in (options_file, weight_file) if file is not None]
        self.cuda_device = cuda_device
        if cuda_device >= 0:
            self.elmo_bilm.cuda(cuda_device)

    @isolated
    def batch_to_embeddings(self, batch: List[List[str]]) -> Tuple[Tensor, Tensor]:
        """batch (List[List[str]]): Tokens of each sentence; a string is a sentence of characters.
        RETURNS (Tuple[Tensor, Tensor]): Padded layers (B, L+1, T, 2P) and the mask (B, T).
        RAISES (ValueError): EL011 for input that is not tokenized; for a batch without sentences.
        """
        layers, mask = self._encode(batch)
        padded = layers[0].new_zeros(len(mask), len(layers), mask.shape[1], layers[0].shape[1])
        for k, rows in enumerate(layers):
            padded[:, k][mask] = rows
        return padded, mask

    def clear_caches(self) -> None:
        """Discard everything derived from the weights, see `BiLM.clear_caches`."""
        self.elmo_bilm.clear_caches()

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
        RAISES (ValueError): EL011 for input that is not tokenized; for a batch without sentences.
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
        """L+1 tensors (N, 2P), all words, and the mask (B, T)."""
        layers, mask = self.elmo_bilm.encode(batch_to_ids(batch, self.elmo_bilm.max_characters))
        return without_boundaries(layers, mask)

    def embed_sentences(self, sentences: Iterable[List[str]], batch_size: int = DEFAULT_BATCH_SIZE) -> Iterator[Array]:
        """sentences (Iterable[List[str]]): See `batch_to_embeddings`.
        batch_size (int): Sentences computed at once, which is also the number of rows of the state.
        YIELDS (Array): Shape (L+1, T, 2P) for each sentence.
        RAISES (ValueError): EL011 for input that is not tokenized; for a batch size below 1.
        """
        check_argument("batch_size", batch_size, Count)
        for batch in batched(sentences, batch_size):
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
        RAISES (ValueError): For an unknown format, empty lines, sentences that cannot be names, and an output that is
            read.
        """
        check_argument("output_format", output_format, OutputFormat)
        sentences = _read_lines(input_file)
        keys = _check_keys(sentences) if use_sentence_keys else [str(i) for i in range(len(sentences))]
        stacks = self.embed_sentences((sentence.split() for sentence in sentences), batch_size)
        name = getattr(input_file, "name", None)  # a number for an open descriptor
        with new_hdf5(output_file_path, [*self._files, *([name] if isinstance(name, (str, bytes)) else [])]) as file:
            for key, layers in zip(keys, stacks):
                add_dataset(file, key, _choose(layers, output_format))
            if not forget_sentences and not use_sentence_keys:
                content = json.dumps(dict(zip(sentences, keys)))
                check_space(Path(file.filename), len(content))
                index = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
                index[0] = content
        input_file.close()


def _read_lines(input_file: IO[str]) -> List[str]:
    sentences = [line.strip() for line in input_file.readlines()]
    empty = [line for line, sentence in enumerate(sentences, 1) if not sentence]
    if empty:
        raise ConfigurationError(
            f"The text has {len(empty)} lines without words (the first is line {empty[0]}, counted from 1). Remove "
            "them: each line is one sentence."
        )
    return sentences


def _check_keys(sentences: List[str]) -> List[str]:
    seen = set()
    for sentence in sentences:
        is_name = sentence != "." and "/" not in sentence and "\0" not in sentence  # a slash separates names of HDF5
        if sentence in seen or not is_name:
            problem = "is duplicated" if is_name else "is a dot, or has a slash or a null byte"
            raise ConfigurationError(
                f"The sentence {sentence!r} {problem}, so that it cannot be a key of the file. Use line numbers as "
                "keys (use_sentence_keys=False)."
            )
        seen.add(sentence)
    return sentences


def _choose(layers: Array, output_format: str) -> Array:
    if output_format == "all":
        return layers
    chosen: Array = layers[-1] if output_format == "top" else layers.mean(axis=0)
    return chosen
