"""Read checkpoints of bilm-tf, with their softmax, and modules of TF-Hub, with their mix, into a `BiLM`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from ...encoding.facade import BiLM
from ...errors import Errors
from ..bilm_tf.files import TFFiles
from ..bilm_tf.hdf5 import read_hdf5
from ..bilm_tf.model import ArrayReader, read_bilm_tf
from ..limits import listed
from ..mixes import LoadedMix, mixes_to_meta
from ..sources import Source
from ..tensor_map import Array, find_misfits
from .files import Checkpoint, CheckpointFiles, HubFiles, open_checkpoint
from .hub_options import derive_options
from .names import find_datasets, find_ending

MIX_WEIGHTS, MIX_SCALE = "aggregation/weights", "aggregation/scaling"
GLOBAL_STEP = "global_step"


@dataclass(frozen=True)
class HubModel:
    """A TF-Hub module of ELMo.

    bilm (BiLM): Without a softmax.
    mix_weights (List[float]): Weights of its mix before the softmax, one per layer; empty if the module has none.
    mix_scale (float): Scale of its mix.
    """

    bilm: BiLM
    mix_weights: List[float]
    mix_scale: float


def read_tf_checkpoint(
    files: CheckpointFiles,
    *,
    vocab: Optional[Source] = None,
    token_embeddings: Optional[Source] = None,
    softmax: Optional[Source] = None,
) -> BiLM:
    """Read a checkpoint of bilm-tf, with its softmax.

    files (CheckpointFiles): Its files.
    vocab (Optional[Source]), token_embeddings (Optional[Source]), softmax (Optional[Source]): See `read_bilm_tf`.
    RETURNS (BiLM): float32, on the CPU.
    RAISES (ValueError): EL320 to EL323 for files of the checkpoint; see `read_bilm_tf` for all others.
    """
    checkpoint = open_checkpoint(files.file)
    arrays = _read_arrays(checkpoint, files.file)
    pair = TFFiles(files.options, Source(files.file), files.vocab, files.token_embeddings)
    given = {"vocab": vocab, "token_embeddings": token_embeddings, "softmax": softmax}
    bilm = read_bilm_tf(pair, **given, read_arrays=_reader(files.file, arrays))
    bilm.meta = {"source_format": "tf-checkpoint", "checkpoint": files.file.name, **_read_step(checkpoint)}
    return bilm


def read_tf_hub(
    files: HubFiles,
    *,
    vocab: Optional[Source] = None,
    token_embeddings: Optional[Source] = None,
    softmax: Optional[Source] = None,
) -> HubModel:
    """Read a module of TF-Hub. Its graph is not opened, so nothing in it is executed.

    files (HubFiles): Its files.
    vocab (Optional[Source]), token_embeddings (Optional[Source]), softmax (Optional[Source]): See `read_bilm_tf`.
    RETURNS (HubModel): The biLM and the mix.
    RAISES (ValueError): EL320 to EL323 and EL325 for files of the module; see `read_bilm_tf` for all others.
    """
    checkpoint = open_checkpoint(files.file)
    arrays = _read_arrays(checkpoint, files.file)
    pair = TFFiles(derive_options(arrays, Source(files.file)), Source(files.file))
    given = {"vocab": vocab, "token_embeddings": token_embeddings, "softmax": softmax}
    bilm = read_bilm_tf(pair, **given, read_arrays=_reader(files.file, arrays))
    mix = _read_mix(checkpoint, files.file, bilm.config.n_layers + 1)
    bilm.meta = {"source_format": "tf-hub"}
    if mix is None:
        return HubModel(bilm, [], 1.0)
    weights, scale = mix[MIX_WEIGHTS].tolist(), float(mix[MIX_SCALE])
    bilm.meta.update(mixes_to_meta([LoadedMix(weights, scale)]))
    return HubModel(bilm, weights, scale)


def _read_arrays(checkpoint: Checkpoint, file: Path) -> Dict[str, Array]:
    """The variables of the biLM by the names of their datasets."""
    names = find_datasets(checkpoint.variables, file)
    arrays = checkpoint.read(names.values())
    return {dataset: arrays.pop(name) for dataset, name in names.items()}


def _reader(file: Path, arrays: Mapping[str, Array]) -> ArrayReader:
    """A reader that has read this file already. Others are HDF5: a softmax, token embeddings."""

    def read(source: Source) -> Dict[str, Array]:
        return dict(arrays) if source.path == file else read_hdf5(source)

    return read


def _read_step(checkpoint: Checkpoint) -> Dict[str, Any]:
    """The updates of the training so far. bilm-tf counts them in floating point."""
    variable = checkpoint.variables.get(GLOBAL_STEP)
    if variable is None or variable.shape or variable.dtype != 1:
        return {}
    step = float(checkpoint.read([GLOBAL_STEP])[GLOBAL_STEP])
    return {"n_updates": int(step)} if 0 <= step < 2**53 else {}


def _read_mix(checkpoint: Checkpoint, file: Path, n_layers: int) -> Optional[Dict[str, Array]]:
    """Weights and scale of the mix, None if the module has none."""
    wanted = {MIX_WEIGHTS: (n_layers,), MIX_SCALE: ()}
    names = {ending: find_ending(checkpoint.variables, ending) for ending in wanted}
    if names[MIX_WEIGHTS] is None or names[MIX_SCALE] is None:
        return None
    found = {ending: name for ending, name in names.items() if name is not None}
    arrays = checkpoint.read(found.values())
    mix = {ending: arrays[name] for ending, name in found.items()}
    problems = find_misfits(wanted, mix)
    if problems:
        settings = {"options": "the layers of its biLM", "n_problems": len(problems), "problems": listed(problems)}
        raise ValueError(Errors.EL026.format(path=file, **settings))
    return mix
