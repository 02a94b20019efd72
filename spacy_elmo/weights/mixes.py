"""Scalar mixes that were trained with a biLM: as values, and in its meta data, with which every format keeps them."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..errors import Errors
from .limits import MAX_ABSOLUTE, shorten

MIXES_KEY = "scalar_mixes"  # in the meta data of a biLM
NORMS = (None, "token", "bilm-tf", "allennlp")


@dataclass(frozen=True)
class LoadedMix:
    """A scalar mix that was trained with a biLM, Peters et al. (2018), eq. 1.

    weights (Sequence[float]): Raw weights, one per layer, the token layer first.
    gamma (float): Scale.
    layer_norm (Optional[str]): Norm of each layer before the mix: "allennlp" for AllenNLP's do_layer_norm, or None.
    """

    weights: Sequence[float]
    gamma: float
    layer_norm: Optional[str] = None

    @property
    def shares(self) -> List[float]:
        """RETURNS (List[float]): softmax(weights), the share of each layer."""
        powers = [math.exp(weight - max(self.weights)) for weight in self.weights]
        return [power / sum(powers) for power in powers]


def mixes_to_meta(mixes: Sequence[LoadedMix]) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): The entry of the meta data, empty without mixes; plain JSON types."""
    records = [{**asdict(mix), "weights": [float(weight) for weight in mix.weights]} for mix in mixes]
    return {MIXES_KEY: records} if records else {}


def mixes_from_meta(meta: Optional[Mapping[str, Any]], n_layers: int) -> Tuple[LoadedMix, ...]:
    """The inverse of `mixes_to_meta`.

    meta (Optional[Mapping[str, Any]]): Meta data of a biLM, from any file.
    n_layers (int): L, LSTM layers of the biLM; a mix has L + 1 weights.
    RETURNS (Tuple[LoadedMix, ...]): The mixes, none if the meta data have none.
    RAISES (ValueError): EL318 for anything but mixes under their key.
    """
    records = (meta or {}).get(MIXES_KEY) or []
    if not isinstance(records, list) or not all(_is_mix(record, n_layers + 1) for record in records):
        problem = (
            f"{MIXES_KEY} in its meta data is {shorten(repr(records), 200)}, should be a list of objects with "
            f"`weights` ({n_layers + 1} numbers), `gamma` (a number) and optionally `layer_norm`"
        )
        raise ValueError(Errors.EL318.format(path="the biLM", problem=problem, remedy="Correct or remove the entry"))
    return tuple(LoadedMix(tuple(item["weights"]), item["gamma"], item.get("layer_norm")) for item in records)


def _is_mix(record: Any, n_weights: int) -> bool:
    if not isinstance(record, Mapping) or not isinstance(record.get("weights"), list):
        return False
    weights = record["weights"]
    are_numbers = all(map(_is_number, [*weights, record.get("gamma")]))
    return are_numbers and len(weights) == n_weights and record.get("layer_norm") in NORMS


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= MAX_ABSOLUTE
