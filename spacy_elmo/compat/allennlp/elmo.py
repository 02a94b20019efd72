"""`Elmo` and `ElmoTokenEmbedder` of AllenNLP 0.9 to 2.10."""

import logging
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from ...errors import Errors
from ...inference.isolation import isolated
from ...nn.inputs import is_original, pad_rows, which_are_words
from ..arguments import ConfigurationError, PathLike, check_count
from ..derived import DerivingModule
from .bilm import ElmoBiLm
from .boundaries import remove_sentence_boundaries
from .files import DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE
from .scalar_mix import ScalarMix

logger = logging.getLogger("spacy_elmo")


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
    RAISES (ValueError): EL330 for a URL, EL331 for a biLM that the module cannot hold, EL332 and EL333 for invalid
        arguments and missing files, EL339 for files and a module, also for files that cannot be read.
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
        check_count("num_output_representations", num_output_representations, least=0)
        if module is not None and (options_file is not None or weight_file is not None):
            found = "both"
            raise ConfigurationError(Errors.EL339.format(name="Elmo", one="files", other="module", found=found))
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
        RAISES (ConfigurationError): EL332 without `params`, or for `namespace_to_cache` without a vocabulary.
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
        RAISES (ValueError): EL017 for invalid ids, EL252 for a batch without sentences.
        """
        if not isinstance(inputs, Tensor):
            raise ValueError(Errors.EL017.format(problem=f"they are a {type(inputs).__name__}, should be a tensor"))
        shape = _outer_shape(inputs, word_inputs)
        flat = inputs.reshape(-1, *inputs.shape[-2:]) if inputs.dim() > 3 else inputs
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
        """Mix without padding, which would take more memory than all else where lengths differ much.

        layers (List[Tensor]): L+1 tensors (N, 2P).
        mask (Tensor): Shape (B, T + 2).
        RETURNS (Tuple[List[Tensor], Tensor]): Padded representations and their mask.
        """
        mixed = [mix(layers, mask[mask]) for mix in mixes]
        if not self._keep_sentence_boundaries:
            is_word = which_are_words(mask)
            mixed, mask = [rows[is_word] for rows in mixed], mask[:, 2:]
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
    """See `Elmo.from_params`. RETURNS (Dict[str, Any]): The arguments of the module."""
    params = next((value for value in (extras.get("params"), *args) if isinstance(value, Mapping)), None)
    if params is None:
        wanted = "the arguments by their names, in a dictionary or in Params of AllenNLP"
        raise ConfigurationError(Errors.EL332.format(name="params of `from_params`", value="missing", wanted=wanted))
    arguments = {name: params[name] for name in params if name != "type"}
    namespace = arguments.pop("namespace_to_cache", None)
    if namespace is not None:
        vocab = extras.get("vocab", next((value for value in args if value is not params), None))
        if not hasattr(vocab, "get_token_to_index_vocabulary"):
            name, wanted = "vocab", "a vocabulary of AllenNLP, since `namespace_to_cache` is given"
            raise ConfigurationError(Errors.EL332.format(name=name, value=repr(vocab), wanted=wanted))
        arguments["vocab_to_cache"] = list(vocab.get_token_to_index_vocabulary(namespace))
    return arguments


def _outer_shape(inputs: Tensor, word_inputs: Optional[Tensor]) -> Tuple[int, ...]:
    """RETURNS (Tuple[int, ...]): The dimensions before the tokens if there is more than one, else nothing."""
    if word_inputs is not None and word_inputs.dim() > 2:
        return tuple(word_inputs.shape[:-1])
    return tuple(inputs.shape[:-2]) if inputs.dim() > 3 else ()
