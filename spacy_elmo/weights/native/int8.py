"""int8 on disk: large matrices as int8 values with their scales, the same as in int8 products."""

from typing import Dict, Iterable, List, Mapping, Tuple

import numpy as np
import torch

from ...engine.quantized_matrices import to_int8
from ..tensor_map import Array

SUFFIX = ".scale"
SUMMED = 1  # the dimension that products sum over, for all matrices


def encode_int8(arrays: Mapping[str, Array], quantized: Iterable[str]) -> Dict[str, Array]:
    """arrays (Mapping[str, Array]): float32 arrays.
    quantized (Iterable[str]): Names of the arrays to quantize.
    RETURNS (Dict[str, Array]): All arrays; a quantized one as `name` (int8) and `name.scale` (float32).
    """
    found = dict(arrays)
    for name in quantized:
        values, scale = to_int8(torch.from_numpy(np.ascontiguousarray(arrays[name])), SUMMED)
        found[name], found[name + SUFFIX] = values.numpy(), scale.numpy()
    return found


def decode_int8(arrays: Mapping[str, Array]) -> Tuple[Dict[str, Array], List[str]]:
    """The inverse of `encode_int8`; arrays of other dtypes do not change.

    RETURNS (Tuple[Dict[str, Array], List[str]]): The arrays by name, and all problems with scales.
    """
    found, problems = dict(arrays), []
    for name in [name for name, array in arrays.items() if array.dtype == np.int8]:
        scale = found.pop(name + SUFFIX, None)
        wanted = tuple(1 if k == SUMMED else n for k, n in enumerate(arrays[name].shape))
        if scale is None or scale.dtype != np.float32 or scale.shape != wanted:
            kind = "missing" if scale is None else f"{scale.dtype} {list(scale.shape)}"
            problems.append(f"{name}{SUFFIX} is {kind}, should be float32 {list(wanted)}")
        else:
            with np.errstate(over="ignore", invalid="ignore"):  # the caller reports values that are not finite
                found[name] = arrays[name].astype("float32") * scale
    return found, problems
