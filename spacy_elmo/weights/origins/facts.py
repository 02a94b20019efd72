"""Compare the files of a published biLM with the number of parameters that is documented of it."""

from math import prod
from pathlib import Path
from typing import Mapping, Optional

from ...bilm.config import BiLMConfig
from ...errors import Errors
from ..bilm_tf.files import HDF5_SUFFIXES
from ..bilm_tf.hdf5 import read_shapes
from ..bilm_tf.options import read_options
from ..limits import find_excess
from ..parts import network_shapes
from ..sources import Source, read_json
from .registry import Origin

OPTIONS_NAME = "options.json"
SOFTMAX_PREFIX = "softmax/"
CHARACTER_TABLE = "char_cnn.embedding"  # with a row for the mask, which is no parameter
UNIT = 100_000  # numbers of parameters are documented in 0.1 M


def check_facts(origin: Origin, paths: Mapping[str, Path]) -> None:
    """Compare the sizes that options and weights have with the documented number of parameters, if there is one.

    origin (Origin): The published biLM.
    paths (Mapping[str, Path]): Its files, complete, by their names in the folder of the download.
    RAISES (ValueError): EL371 if they are another biLM.
    """
    if origin.n_parameters is None:
        return
    problems = [text for name, path in paths.items() if (text := _find_problem(name, path, origin.n_parameters))]
    if problems:
        raise ValueError(Errors.EL371.format(name=origin.name, problems="".join(f"\n- {text}" for text in problems)))


def count_parameters(config: BiLMConfig) -> int:
    """config (BiLMConfig): Sizes of a biLM.
    RETURNS (int): Its parameters without softmax, as in the papers; no memory is taken.
    """
    shapes = network_shapes(config)
    masked = shapes.get(CHARACTER_TABLE)
    return sum(map(prod, shapes.values())) - (masked[1] if masked else 0)


def _find_problem(name: str, path: Path, wanted: int) -> Optional[str]:
    """RETURNS (Optional[str]): How a file differs from what is documented, None if it does not, or says no sizes."""
    try:
        found = _count(name, path)
    except ValueError as error:
        return f"'{path}' has no sizes to compare: {error}"
    if found is None or round(found / UNIT) == round(wanted / UNIT):
        return None
    return f"'{path}' is of a biLM with {found:,} parameters, documented are {wanted / 1e6:.1f} M"


def _count(name: str, path: Path) -> Optional[int]:
    if name == OPTIONS_NAME:
        config = read_options(read_json(Source(path)), str(path))
        excess = find_excess(config)
        if excess:
            raise ValueError(Errors.EL023.format(path=path, problems="; ".join(excess)))
        return count_parameters(config)
    if name.endswith(HDF5_SUFFIXES):
        shapes = read_shapes(Source(path))
        return sum(prod(shape) for key, shape in shapes.items() if not key.startswith(SOFTMAX_PREFIX))
    return None
