"""int8 on disk: the heavy weights as whole numbers, each beside its scales; the same numbers that int8 products use."""

from typing import Dict, Iterable, List, Mapping, Tuple

import numpy as np
import torch

from ...engine.quantized_matrices import to_int8
from ..tensor_map import Array

SUFFIX = ".scale"
SUMMED = 1  # the dimension that products sum over, in all of them


def encode_int8(arrays: Mapping[str, Array], heavy: Iterable[str]) -> Dict[str, Array]:
    """arrays (Mapping[str, Array]): float32 arrays.
    heavy (Iterable[str]): Names of those to be rounded.
    RETURNS (Dict[str, Array]): All of them, a rounded one as `name` (int8) and `name.scale` (float32).
    """
    found = dict(arrays)
    for name in heavy:
        values, scale = to_int8(torch.from_numpy(np.ascontiguousarray(arrays[name])), SUMMED)
        found[name], found[name + SUFFIX] = values.numpy(), scale.numpy()
    return found


def decode_int8(arrays: Mapping[str, Array]) -> Tuple[Dict[str, Array], List[str]]:
    """The inverse of `encode_int8`; arrays of other types are handed on.

    RETURNS (Tuple[Dict[str, Array], List[str]]): float32 arrays by name, and what is wrong with scales.
    """
    found, problems = dict(arrays), []
    for name in [name for name, array in arrays.items() if array.dtype == np.int8]:
        scale = found.pop(name + SUFFIX, None)
        wanted = tuple(1 if k == SUMMED else n for k, n in enumerate(arrays[name].shape))
        if scale is None or scale.dtype != np.float32 or scale.shape != wanted:
            kind = "missing" if scale is None else f"{scale.dtype} {list(scale.shape)}"
            problems.append(f"{name}{SUFFIX} is {kind}, should be float32 {list(wanted)}")
        else:
            found[name] = arrays[name].astype("float32") * scale
    return found, problems
