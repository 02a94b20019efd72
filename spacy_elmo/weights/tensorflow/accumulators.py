"""Adagrad's accumulators (sums of squared gradients) in a training checkpoint of bilm-tf, in our layout."""

from typing import Dict, Optional

import numpy as np

from ..._settings import to_path
from ...encoding.facade import BiLM
from ...errors import Errors
from ..bilm_tf.layout import SOFTMAX_BIAS, SOFTMAX_WEIGHT, regular_name, state_shapes, tf_datasets
from ..limits import listed
from ..parts import as_float32, is_head_shared, to_arrays
from ..sources import PathLike
from ..tensor_map import Array, Shape, find_misfits, import_arrays
from .files import Checkpoint, find_checkpoint, open_checkpoint
from .names import find_accumulators

MASK_ROW = "char_cnn.embedding"  # its first row is not in the files, and has no gradient


def has_accumulators(path: PathLike) -> bool:
    """path (PathLike): A biLM in any format.
    RETURNS (bool): Whether it is a TensorFlow checkpoint with Adagrad's accumulators.
    RAISES (ValueError): EL320 to EL324 for a damaged checkpoint.
    """
    checkpoint = _open(path)
    return checkpoint is not None and bool(find_accumulators(checkpoint.variables, path))


def read_accumulators(path: PathLike, bilm: BiLM, *, initial: float) -> Dict[str, Array]:
    """Read the accumulators of all parameters of a biLM and its softmax.

    path (PathLike): The checkpoint that the biLM was loaded from.
    bilm (BiLM): The biLM.
    initial (float): Value for the row of the mask, which bilm-tf does not have.
    RETURNS (Dict[str, Array]): float32 arrays by the names "network.NAME" and "head.NAME" of the parameters.
    RAISES (ValueError): EL326 if it is not a checkpoint, has no accumulators for some parameters, or others that do not
        fit or are not positive; EL320 to EL324 if it is damaged.
    """
    checkpoint = _open(path)
    if checkpoint is None:
        raise ValueError(Errors.EL326.format(path=path, reason="it is not a TensorFlow checkpoint"))
    names = find_accumulators(checkpoint.variables, path)
    if not names:
        raise ValueError(Errors.EL326.format(path=path, reason="it has no variables that end in '/Adagrad'"))
    stored = checkpoint.read(names.values())
    arrays = {regular_name(dataset): stored[name] for dataset, name in names.items()}
    wanted = _shapes(bilm)
    problems = find_misfits(wanted, arrays)
    problems += [f"not positive: {name}" for name in sorted(set(arrays) & set(wanted)) if not (arrays[name] > 0).all()]
    if problems:
        reason = f"they have {len(problems)} problem(s):{listed(problems)}\n"
        raise ValueError(Errors.EL326.format(path=path, reason=reason))
    return _to_ours(arrays, bilm, initial)


def _open(path: PathLike) -> Optional[Checkpoint]:
    file = find_checkpoint(to_path(path))
    return None if file is None else open_checkpoint(file)


def _shapes(bilm: BiLM) -> Dict[str, Shape]:
    """Shapes of all arrays by the names of their datasets."""
    shapes = {dataset.name: dataset.shape for dataset in tf_datasets(bilm.config)}
    if bilm.head is not None:
        head = to_arrays(bilm.head)
        shapes[SOFTMAX_BIAS] = head["bias"].shape
        if not is_head_shared(bilm.network, bilm.head):
            shapes[SOFTMAX_WEIGHT] = head["weight"].shape
    return shapes


def _to_ours(arrays: Dict[str, Array], bilm: BiLM, initial: float) -> Dict[str, Array]:
    state = import_arrays(tf_datasets(bilm.config), arrays, state_shapes(bilm.config))
    if MASK_ROW in state:
        state[MASK_ROW][0] = np.float32(initial or 1.0)
    sums = {f"network.{key}": array for key, array in state.items()}
    for dataset, key in ((SOFTMAX_WEIGHT, "head.weight"), (SOFTMAX_BIAS, "head.bias")):
        if dataset in arrays:
            sums[key] = as_float32(arrays[dataset])
    return sums
