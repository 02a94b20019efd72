"""ELMo as a PyTorch module: sentences in, padded vectors and a mask out (Peters et al. 2018, eq. 1 and sec. 3.3)."""

import os
import warnings
import weakref
from dataclasses import dataclass, field
from typing import (
    Annotated,
    Any,
    Callable,
    Dict,
    List,
    Literal,
    NamedTuple,
    NoReturn,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

import torch
from pydantic import SkipValidation
from torch import Tensor, nn

from ..bilm.layers import find_hooked
from ..errors import Errors, Warnings
from ..inference.bilm import BiLM
from ..inference.products import full_state
from ..inference.runtime import isolated
from ..settings import AnyNorm, Count, Flag, Number, Probability, check_arguments
from ..text.words import BOW_CHARACTER
from ..weights import load_bilm
from ..weights.archive import PathLike
from ..weights.meta import mixes_from_meta
from .inputs import Inputs, is_original, pad_rows, read_inputs, strip_boundaries, with_boundaries, without_boundaries
from .modules import (
    ALLENNLP_HINT,
    MixWeights,
    ScalarMix,
    check_mask,
    describe_shape,
    mismatch_of_layers,
    reject_other_arguments,
)

IN_ALLENNLP = ALLENNLP_HINT.format(name="Elmo")
FIRST_ID = BOW_CHARACTER + 1  # with which each word in UTF-8 begins; ids are shifted by one
MIX_SETTINGS = ("n_mixes", "initial_weights", "initial_gamma", "layer_norm")
NETWORK, DIGEST = "network.", "digest"
SHARING = "sharing"  # attribute of a network, see `Sharing`


class ElmoOutput(NamedTuple):
    """Vectors of a batch.

    representations (List[Tensor]): One tensor (B, S, D) for each mix, zeros where the mask is False.
    mask (Tensor): Shape (B, S) bool, True for tokens.
    """

    representations: List[Tensor]
    mask: Tensor

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, str):
            self.__getattr__(place)
        return tuple.__getitem__(self, place)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"ElmoOutput has no '{name}': it is a tuple (representations, mask). {IN_ALLENNLP}.")


class Elmo(nn.Module):
    """The layers of a biLM, mixed once for each place where a model uses them.

    Frozen, the biLM is run by the fast engine; trained, through PyTorch's graph. Either way a vector does not depend on
    the other sentences of its batch, nor on earlier batches.

    bilm (Union[BiLM, PathLike]): A biLM, which is shared and not copied; a packaged name such as "en_elmo_sm"; or a
        path that `load_bilm` takes. The last module made of a biLM decides for all of them whether it is trained;
        warning WL141 if that changes.
    n_mixes (int): Mixes, each with weights of its own: 2 for ELMo at the input and at the output of
        a model.
    dropout (float): Dropout of the mixed vectors in training.
    trainable (bool): Train the biLM. It is trained while a parameter of it requires a gradient, so that
        `elmo.encoder.requires_grad_(True)` unfreezes it later.
    state (str): Recurrent state that each sentence begins with: "reset" or, frozen only, "steady".
    boundaries (bool): Keep the rows of `<S>` and `</S>`: S + 2 rows for the longest sentence.
    layer_norm (Optional[str]), initial_weights (Optional[Sequence[float]]), initial_gamma (float), layer_dropout
        (float): Settings of each mix, see `ScalarMix`; the norm "allennlp" counts the rows of `<S>` and `</S>`.
    learn_mix (bool): Train the mixes.
    batch_tokens (int): Tokens that a frozen biLM computes at once, which bounds the working memory.
    store_bilm (bool): Whether `state_dict` has the weights of a biLM that is as it was given. Without them it is small,
        and can be loaded only beside the same biLM. Weights that have changed since are always there.
    RAISES (ValueError): EL060 for invalid settings, also for weights that are missing or cannot be read.
    """

    @reject_other_arguments
    @check_arguments
    @isolated
    def __init__(
        self,
        bilm: Annotated[Union[BiLM, PathLike], SkipValidation],
        n_mixes: Count = 1,
        *,
        dropout: Probability = 0.5,
        trainable: Flag = False,
        state: Literal["reset", "steady"] = "reset",
        boundaries: Flag = False,
        layer_norm: Optional[AnyNorm] = None,
        initial_weights: Optional[MixWeights] = None,
        initial_gamma: Number = 1.0,
        layer_dropout: Probability = 0.0,
        learn_mix: Flag = True,
        batch_tokens: Count = 8192,
        store_bilm: Flag = True,
    ) -> None:
        super().__init__()
        loaded = _find_bilm(bilm)
        mixture_size = loaded.config.n_layers + 1
        problem = f"state is {state!r}, should be 'reset'" if trainable and state != "reset" else ""
        if trainable and loaded.precision != "float32":
            problem = f"the precision of the biLM is '{loaded.precision}', should be 'float32'"
        if problem:
            raise ValueError(Errors.EL060.format(block="Elmo module", problems=f"{problem} while the biLM is trained"))
        self.state, self.boundaries, self.batch_tokens = state, boundaries, batch_tokens
        self.encoder = BiLMModule(loaded, is_stored=store_bilm)
        self.encoder.train_weights(trainable)
        self.mixes = nn.ModuleList(
            ScalarMix(
                mixture_size,
                initial_weights=initial_weights,
                initial_gamma=initial_gamma,
                trainable=learn_mix,
                layer_norm=layer_norm,
                layer_dropout=layer_dropout,
            )
            for _ in range(n_mixes)
        )
        self.dropout = nn.Dropout(dropout)
        self.to(loaded.device)
        self._reads_boundaries = boundaries or layer_norm == "allennlp"

    @classmethod
    @isolated
    def from_allennlp(
        cls,
        path: Optional[PathLike] = None,
        *,
        options: Optional[PathLike] = None,
        weights: Optional[PathLike] = None,
        **settings: Any,
    ) -> "Elmo":
        """Make a module of the biLM and the trained mixes of an AllenNLP model, or of what was saved of it.

        path (Optional[PathLike]), options (Optional[PathLike]), weights (Optional[PathLike]): See `load_bilm`.
        **settings (Any): Settings of `Elmo`, except for the mixes, which are the model's.
        RETURNS (Elmo): With a mix for each of AllenNLP's, and its layer norm.
        RAISES (ValueError): EL060 for settings of the mixes, if there are no mixes, or they differ in their norm,
            and the errors of `load_bilm`.
        """
        if names := ", ".join(name for name in MIX_SETTINGS if name in settings):
            problem = f"{names} cannot be set, since the mixes are read from the model"
            raise ValueError(Errors.EL060.format(block="Elmo module from AllenNLP", problems=problem))
        bilm = load_bilm(path, options=options, weights=weights)
        mixes = mixes_from_meta(bilm.meta, bilm.config.n_layers)
        norms: Set[Any] = {mix.layer_norm for mix in mixes}
        if len(norms) != 1:
            problem = f"it has {len(mixes)} with {len(norms)} different norms, should have one or more with one norm"
            raise ValueError(
                f"The scalar mixes of '{path or weights}' cannot be used: {problem}. Make a module with new mixes: "
                "`Elmo(path)`."
            )
        bilm.head = None  # vectors do not need the softmax
        module = cls(bilm, len(mixes), layer_norm=norms.pop(), **settings)
        with torch.no_grad():
            module_mix: Any
            for module_mix, mix in zip(module.mixes, mixes):
                module_mix.weights.copy_(torch.tensor(mix.weights))
                module_mix.gamma.fill_(mix.gamma)
        return module

    @property
    def bilm(self) -> BiLM:
        """RETURNS (BiLM): The biLM, for `config`, `embed`, `token_losses` and its other methods."""
        return self.encoder.bilm

    @property
    def output_width(self) -> int:
        """RETURNS (int): D, the width of a representation."""
        return self.bilm.config.output_width

    def forward(self, inputs: Inputs) -> ElmoOutput:
        """Compute the vectors of a batch: `encode`, then `mix`. Padding is added at the end: memory is needed for the
        representations, the layers of the tokens without padding, and `batch_tokens`.

        inputs (Inputs): Tokens of each sentence, without boundaries; or their character ids, shape (B, S, C), as
            `batch_to_ids` gives them. A sentence may have no words.
        RETURNS (ElmoOutput): Representations and mask, on the device of the biLM.
        RAISES (ValueError): EL011 for input that is not tokenized, EL017 for ids that do not fit; for a batch without
            sentences, or a trained biLM with another state than "reset".
        """
        if not all(is_original(mix, ScalarMix) for mix in self.mixes):
            return self.mix(*self.encode(inputs))
        rows, mask = self._encode(inputs)
        mixed = [mix(rows) for mix in self.mixes]  # (N, D) each
        if self._reads_boundaries and not self.boundaries:
            mixed, mask = without_boundaries(mixed, mask)
        return ElmoOutput([self.dropout(pad_rows(vectors, mask)) for vectors in mixed], mask.to(rows.device))

    def encode(self, inputs: Inputs) -> Tuple[Tensor, Tensor]:
        """The layers before they are mixed. Those of a frozen biLM can be computed once and kept for all epochs.

        inputs (Inputs): See `forward`.
        RETURNS (Tuple[Tensor, Tensor]): Padded layers (L+1, B, S, D) and the mask (B, S), for `mix`; with rows of `<S>`
            and `</S>` where `boundaries` or the norm needs them.
        RAISES (ValueError): See `forward`.
        """
        rows, mask = self._encode(inputs)
        return pad_rows(rows, mask), mask.to(rows.device)

    def mix(self, layers: Tensor, mask: Tensor) -> ElmoOutput:
        """Mix layers once for each representation.

        layers (Tensor): Shape (L+1, B, S, D), from `encode` of this module, or of one with the same `boundaries` and
            `layer_norm`: with others, words would be taken for `<S>` and `</S>`. float16 is computed in the type of the
            mixes.
        mask (Tensor): Shape (B, S), from `encode`.
        RETURNS (ElmoOutput): Representations and mask; rows of `<S>` and `</S>` only with `boundaries`.
        RAISES (ValueError): For layers and masks that do not fit.
        """
        mixed = [mix(layers, mask) for mix in self.mixes]
        check_mask(mask, mixed[0])
        if mixed[0].shape[-1] != self.output_width:
            raise mismatch_of_layers(
                f"layers of width {self.output_width}", f"{mixed[0].shape[-1]}{describe_shape(layers)}"
            )
        if self._reads_boundaries and not self.boundaries:
            mixed, mask = [strip_boundaries(rows, mask)[0] for rows in mixed], mask[:, 2:]
        return ElmoOutput([self.dropout(rows) for rows in mixed], mask)

    def clear_caches(self) -> None:
        """Discard everything derived from the weights of the biLM, see `BiLM.clear_caches`."""
        self.bilm.clear_caches()

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            raise AttributeError(f"{error}. {IN_ALLENNLP}.") from None

    def extra_repr(self) -> str:
        """RETURNS (str): Settings, for `print`."""
        return f"state={self.state!r}, boundaries={self.boundaries}, output_width={self.output_width}"

    @isolated
    def _encode(self, inputs: Inputs) -> Tuple[Tensor, Tensor]:
        """Layers of all tokens (L+1, N, D), and their mask (B, S), on the CPU."""
        bilm, boundaries = self.bilm, self._reads_boundaries
        batch = read_inputs(inputs, FIRST_ID if bilm.config.char_cnn is not None else None)
        settings: Dict[str, Any] = {"state": self.state, "batch_tokens": self.batch_tokens, "boundaries": boundaries}
        rows = self.encoder(batch.sentences, char_ids=batch.char_ids, **settings)
        return rows, with_boundaries(batch.mask) if boundaries else batch.mask


@dataclass(eq=False)
class Sharing:
    """What the modules of a network share: an attribute of the network, which is copied and saved with it.

    digest (str): `BiLM.digest` when the first module was made of the network.
    users (WeakSet[BiLMModule]): The modules that use the network; a copy has none.
    """

    digest: str
    users: "weakref.WeakSet[BiLMModule]" = field(default_factory=weakref.WeakSet)

    def __reduce__(self) -> Tuple[Any, ...]:
        return Sharing, (self.digest,)


class BiLMModule(nn.Module):
    """Registers the network of a biLM, which is shared and not copied, so that `.to`, `.parameters` and `.state_dict`
    of a model reach it.

    A state dict without the weights has their digest instead: loading it beside another biLM is an error. Weights that
    were changed after the first module was made of them are nowhere else: they are always stored, also when they are
    frozen later (writes that torch does not count are noticed after `clear_caches`). `is_stored` says whether weights
    that are as they were read are part of the state dict.
    """

    def __init__(self, bilm: BiLM, *, is_stored: bool) -> None:
        super().__init__()
        self.bilm, self.is_stored = bilm, is_stored
        self.network = bilm.network
        if not hasattr(self.network, SHARING):
            setattr(self.network, SHARING, Sharing(bilm.digest))
        self._sharing.users.add(self)

    def __setstate__(self, state: Dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]  # torch gives it no types
        self._sharing.users.add(self)  # a copy of modules that share a network shares the copy of it

    @property
    def is_trained(self) -> bool:
        return any(parameter.requires_grad for parameter in self.network.parameters())

    @property
    def has_changed(self) -> bool:
        """Whether the weights have changed since the first module was made of them."""
        return self._sharing.digest != self.bilm.digest

    @property
    def _sharing(self) -> Sharing:
        sharing: Sharing = getattr(self.network, SHARING)
        return sharing

    def forward(
        self, sequences: Sequence[Sequence[Any]], *, char_ids: Optional[Tensor], state: str, **settings: Any
    ) -> Tensor:
        """Compute the layers of sequences of words, or of rows of character ids, see `BiLM.encode`.

        With gradients or without, hooks and parametrizations of all modules have their effect.
        RETURNS (Tensor): Shape (L+1, N, D).
        """
        bilm, is_trained = self.bilm, self.is_trained
        if bilm.device.type == "meta":
            raise ValueError(
                "The biLM is on the device 'meta', where tensors have no values. Load it again, and leave it on a "
                "CPU, or move it to a GPU."
            )
        # A hook may make activations of a frozen biLM require a gradient.
        is_hooked = state == "reset" and bilm.precision == "float32" and bool(find_hooked(self.network.modules()))
        with_grad = torch.is_grad_enabled() and (is_trained or is_hooked)
        return bilm.encode(sequences, char_ids=char_ids, state=state, with_grad=with_grad, **settings)

    def train_weights(self, trainable: bool) -> None:
        """Train or freeze the weights, in all modules that share them; WL141 if that changes another module."""
        other_users = [user for user in self._sharing.users if user is not self]
        if other_users and any(parameter.requires_grad is not trainable for parameter in self.network.parameters()):
            change, before = ("unfrozen", "froze") if trainable else ("frozen", "trained")
            text = Warnings.WL141.format(n_others=len(other_users), change=change, before=before, trainable=trainable)
            warnings.warn(text, stacklevel=4)
        self.requires_grad_(trainable)

    def state_dict(self, *args: Any, prefix: str = "", **rest: Any) -> Dict[str, Any]:  # type: ignore[override]  # torch has overloads for old calls
        """The weights in float32, or their digest, 6 bytes."""
        state: Dict[str, Any] = super().state_dict(*args, prefix=prefix, **rest)
        if self.is_stored or self.is_trained or self.has_changed:
            if self.bilm.precision != "float32":
                state.update((f"{prefix}{NETWORK}{name}", value) for name, value in full_state(self.network).items())
            return state
        for name in [name for name in state if name.startswith(prefix + NETWORK)]:
            del state[name]
        digest = bytes.fromhex(self.bilm.digest)
        state[prefix + DIGEST] = torch.tensor(list(digest), dtype=torch.uint8, device="cpu")
        return state

    def _load_from_state_dict(self, state_dict: Dict[str, Any], prefix: str, *rest: Any) -> None:
        digest = state_dict.pop(prefix + DIGEST, None)
        if not any(name.startswith(prefix + NETWORK) for name in state_dict):
            if digest is not None:
                stored = bytes(digest.to(torch.uint8).tolist()).hex()  # a state dict may be cast
                if stored != self.bilm.digest:
                    raise ValueError(
                        f"The state dict was saved with another biLM, of digest {stored}, this one has "
                        f"{self.bilm.digest}. Its mixes do not fit this biLM. Make the module with the biLM it was "
                        f"trained with; to load the other parameters all the same, delete '{prefix + DIGEST}' and pass "
                        "strict=False."
                    )
                weights = self.network.state_dict()
                state_dict.update((prefix + NETWORK + name, value) for name, value in weights.items())
        elif self.bilm.precision != "float32":
            self._load_rounded(state_dict, prefix + NETWORK)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _load_rounded(self, state_dict: Dict[str, Any], prefix: str) -> None:
        """Load weights into a network in reduced precision, and leave in the state dict what the network now has."""
        precision = self.bilm.precision
        weights = {name[len(prefix) :]: state_dict.pop(name) for name in list(state_dict) if name.startswith(prefix)}
        self.bilm.set_precision("float32")
        try:
            self.network.load_state_dict(weights)
        finally:
            self.bilm.set_precision(precision)
        state_dict.update((prefix + name, value) for name, value in self.network.state_dict().items())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "BiLMModule":
        """What `.to`, `.cuda`, `.half` and similar methods call: the device changes, the type does not."""
        probe = fn(torch.empty(0, dtype=torch.float32, device=self.bilm.device))
        if probe.dtype != torch.float32:
            warnings.warn(Warnings.WL140.format(dtype=str(probe.dtype).removeprefix("torch.")), stacklevel=2)
        if probe.device != self.bilm.device:
            self.bilm.to(probe.device)
        elif probe.dtype == torch.float32:
            super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch gives it no types
        return self


def _find_bilm(bilm: Union[BiLM, PathLike]) -> BiLM:
    if isinstance(bilm, BiLM):
        return bilm
    loaded = load_bilm(os.fsdecode(bilm))
    loaded.head = None  # vectors do not need the softmax
    return loaded
