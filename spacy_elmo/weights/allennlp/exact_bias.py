"""The forget biases of an archive that also has the HDF5 file of its biLM, bit for bit.

A state dict has fl(b + 1). For b >= -0.5 some bits of b are lost in the sum, and b cannot be found from it. Where the
archive has the original file, and its b gives the same sum, b is taken from there. Without that file b = fl(sum - 1),
with which AllenNLP's own sum comes out again: the vectors are the same.
"""

from typing import Dict, Mapping

import numpy as np

from ...bilm.config import BiLMConfig
from ..parts import as_float32
from ..tensor_map import Array
from .layout import FORGET, FORGET_TRANSFORM, GATES, lstm_base


def restore_forget_biases(
    config: BiLMConfig, state: Dict[str, Array], tensors: Mapping[str, Array], original: Mapping[str, Array]
) -> None:
    """Replace forget biases of our state dict by those of the original file.

    config (BiLMConfig): Sizes.
    state (Dict[str, Array]): Our state dict, changed in place.
    tensors (Mapping[str, Array]): AllenNLP's tensors, by their names in the biLM.
    original (Mapping[str, Array]): Arrays of an HDF5 file by the names of bilm-tf; may lack any.
    """
    h = config.cell_width
    columns = slice(GATES[FORGET] * h, (GATES[FORGET] + 1) * h)
    for layer in range(config.n_layers):
        for direction in range(config.n_directions):
            bias = original.get(f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/B")
            summed = tensors[f"{lstm_base(layer, direction)}state_linearity.bias"][FORGET * h : (FORGET + 1) * h]
            if bias is None or bias.shape != (4 * h,) or bias.dtype.kind != "f":
                continue
            exact = as_float32(bias[columns])
            if np.array_equal(FORGET_TRANSFORM.to_theirs(exact), as_float32(summed)):
                state[f"encoder.layers.{layer}.bias"][direction, columns] = exact
