"""Checkpoints of bilm-tf, which its training writes, and modules of TF-Hub, `google/elmo`.

A checkpoint is PREFIX.index and PREFIX.data-*, beside `options.json` and a text `checkpoint` with the newest PREFIX. A
module has its graph, which is not opened, and the same files in `variables/`. Their variables are read into a `BiLM`
under the names of bilm-tf's HDF5 files.
"""

import glob
import re
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from ...errors import Errors
from ...inference.bilm import BiLM
from ...util import MAX_NAMED, listed, shorten
from ..archive import OPTIONS_NAME, VOCAB_NAME, Array, File, Listing, ModelFiles, Shape, list_files, read_object
from ..meta import FORMAT_KEY, LoadedMix, mixes_to_meta
from ..tensor_map import find_mismatches, raise_mismatches
from .bilm_tf import (
    CHAR_TABLE,
    LSTM_VARIABLE,
    TOKEN_EMBEDDINGS_NAME,
    WORD_TABLE,
    build_bilm_tf,
    cell_of,
    derive_options,
    find_options,
    only_file,
    regular_name,
)
from .tf_bundle import INDEX_SUFFIX, TF_DTYPES, Bundle, Variable

STATE_NAME = "checkpoint"  # text with the name of the newest checkpoint
NEWEST = re.compile(rb'^[ \t]*model_checkpoint_path\s*:\s*"((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
DATA_FILE = re.compile(r"(?P<prefix>.+)\.data-\d{5}-of-\d{5}")
GRAPHS = ("saved_model.pb", "tfhub_module.pb")
HUB_INDEX = Path("variables") / "variables.index"
HUB_FILES = f"a folder of a TF-Hub module with {' or '.join(GRAPHS)} and {HUB_INDEX.as_posix()}"
SLOT = re.compile(r"(?P<variable>.+)/(?P<slot>Adagrad|Adam|AdaDelta|Adadelta|Ftrl|Momentum|RMSProp|Moving\w+)(_\d+)?")
# Variables that training adds.
BOOKKEEPING = re.compile(r"(.*/)?(global_step|train_perplexity|beta\d_power|ExponentialMovingAverage)")
MIX_WEIGHTS, MIX_SCALE = "aggregation/weights", "aggregation/scaling"
GLOBAL_STEP = "global_step"


def detect_tf_hub(listing: Listing) -> Optional[ModelFiles]:
    """ValueError EL020 for a module without variables."""
    path = listing.path
    folder = path.parent.parent if path.parts[-2:] == HUB_INDEX.parts else path
    if not any((folder / name).is_file() for name in GRAPHS):
        return None
    if not (folder / HUB_INDEX).is_file():
        reason = f"{HUB_INDEX.as_posix()} is missing"
        raise ValueError(Errors.EL020.format(path=path, reason=reason, expected=HUB_FILES))
    return ModelFiles(str(folder), File(folder / HUB_INDEX), _files_of(folder / HUB_INDEX))


def detect_tf_checkpoint(listing: Listing) -> Optional[ModelFiles]:
    """ValueError EL020 without options, EL021 for several; see `find_checkpoint`."""
    file = find_checkpoint(listing.path)
    return None if file is None else with_options(file)


def with_options(file: Path, options: Optional[File] = None) -> ModelFiles:
    """The files of a checkpoint from `find_checkpoint`, with its options, which may be in another folder; by default
    those beside it. ValueError EL020 without options, EL021 for several.
    """
    beside = list_files(file.parent)
    if options is None:
        candidates = [beside[OPTIONS_NAME]] if OPTIONS_NAME in beside else find_options(beside)
        options = only_file(candidates, file, "options", [OPTIONS_NAME], "a TensorFlow checkpoint")
    # The vocabulary of the released models is vocab-2016-09-10.txt.
    named = [name for name in beside if name.startswith("vocab") and name.endswith(".txt")]
    vocab = beside.get(VOCAB_NAME, beside[named[0]] if len(named) == 1 else None)
    embeddings = beside.get(TOKEN_EMBEDDINGS_NAME)
    return ModelFiles(str(file), File(file), _files_of(file), options, vocab, embeddings)


def find_checkpoint(path: Path) -> Optional[Path]:
    """The index of a checkpoint, PREFIX.index; None if this is not a checkpoint. The path is a folder, a file of a
    checkpoint, or the prefix of its files, which need not exist itself. An index that a file `checkpoint` names may be
    missing, which its reader reports.

    RAISES (ValueError): For several checkpoints without a name of the newest.
    """
    if path.is_dir():
        return _in_folder(path)
    if path.name == STATE_NAME and path.is_file():
        return _in_folder(path.parent)
    match = DATA_FILE.fullmatch(path.name)
    prefix = match["prefix"] if match else path.name.removesuffix(INDEX_SUFFIX).removesuffix(".meta")
    index = path.with_name(f"{prefix}{INDEX_SUFFIX}")
    return index if index.is_file() else None


def _in_folder(folder: Path) -> Optional[Path]:
    state = folder / STATE_NAME
    name = _newest(state) if state.is_file() else None
    if name is not None:
        return folder / f"{name}{INDEX_SUFFIX}"
    indices = [folder / name for name in list_files(folder) if name.endswith(INDEX_SUFFIX)]
    indices = [file for file in indices if _data_files(file)]
    if len(indices) > 1:
        names = ", ".join(file.name for file in indices)
        raise ValueError(
            f"'{folder}' has {len(indices)} TensorFlow checkpoints ({names}), and no file 'checkpoint' that names "
            "the newest. Pass the path of one of the .index files."
        )
    return indices[0] if indices else None


def _newest(state: Path) -> Optional[str]:
    """The name in a file `checkpoint`, without its folder, which may be on another machine."""
    match = NEWEST.search(File(state).read_bytes().removeprefix(BOM_UTF8))
    return None if match is None else re.split(r"[/\\]", match[1].decode("utf8", errors="replace"))[-1]


def _data_files(index: Path) -> List[Path]:
    pattern = f"{glob.escape(index.name.removesuffix(INDEX_SUFFIX))}.data-?????-of-?????"
    return sorted(index.parent.glob(pattern))


def _files_of(index: Path) -> Dict[str, File]:
    return {file.name: File(file) for file in (index, *_data_files(index))}


def _find_datasets(variables: Mapping[str, Variable], path: object) -> Dict[str, str]:
    """The variables of the biLM by their names in its scope, which has `char_embed` or `embedding`, and LSTMs. Slots of
    optimizers and counters are left out; other variables in the scope stay, so that they are reported. ValueError if
    there is no biLM, or several.
    """
    known = sorted(variables)
    ends = (CHAR_TABLE, WORD_TABLE)
    scopes = {name.removesuffix(end) for name in known for end in ends if f"/{name}".endswith(f"/{end}")}
    scopes = {
        scope
        for scope in scopes
        if any(name.startswith(scope) and LSTM_VARIABLE.fullmatch(name, len(scope)) for name in known)
    }
    if len(scopes) != 1:
        has = "no biLM" if not scopes else f"{len(scopes)} biLMs, in the scopes {', '.join(map(repr, sorted(scopes)))}"
        raise ValueError(
            f"The TensorFlow checkpoint '{path}' has {shorten(has)}, should have 'char_embed' or 'embedding' in one "
            f"scope with LSTMs. It has {len(known)} variables:{listed(known, MAX_NAMED)}\nUse a checkpoint of bilm-tf "
            "with one biLM, or a module of TF-Hub such as google/elmo/3."
        )
    (scope,) = scopes
    inner_names = {name: name.removeprefix(scope) for name in known if name.startswith(scope)}
    return {
        inner: name
        for name, inner in inner_names.items()
        if variables[name].dtype in TF_DTYPES and not SLOT.fullmatch(inner) and not BOOKKEEPING.fullmatch(inner)
    }


def _derive_hub_options(arrays: Mapping[str, Array], source: File) -> Dict[str, Any]:
    """Options for the shapes of the variables of a TF-Hub module; errors as in `derive_options`."""
    shapes = {regular_name(name): array.shape for name, array in arrays.items()}
    names = {"characters": CHAR_TABLE, "filters": "CNN/W_cnn_{}", "highways": "CNN_high_{}/W_carry"}
    names["gates"] = cell_of(0, 0).replace("Cell0", "Cell{}") + "W_0"
    if f"{cell_of(0, 0)}W_P_0" in shapes:
        names["projections"] = f"{cell_of(0, 0)}W_P_0"
    return derive_options(shapes, names, 4, source)


def read_tf_checkpoint(files: ModelFiles, **words: Optional[File]) -> BiLM:
    """Read a checkpoint of bilm-tf, with its softmax. `words` are files of words and vectors, and errors are as in
    `build_bilm_tf`, EL022 for files of the checkpoint.
    """
    file = files.weights.path
    checkpoint = Bundle(file)
    options = files.options or files.weights
    bilm = build_bilm_tf(files, _read_arrays(checkpoint, file), read_object(options, "options"), options, **words)
    bilm.meta = {FORMAT_KEY: "tf-checkpoint", "checkpoint": file.name}
    step = checkpoint.variables.get(GLOBAL_STEP)
    if step is not None and step.shape == () and step.dtype == 1:  # bilm-tf counts updates in floating point
        n_updates = float(checkpoint.read([GLOBAL_STEP])[GLOBAL_STEP])
        bilm.meta.update({"n_updates": int(n_updates)} if 0 <= n_updates < 2**53 else {})
    return bilm


def read_tf_hub(files: ModelFiles, **words: Optional[File]) -> BiLM:
    """Read a module of TF-Hub, without a softmax, with the mix in its meta data if it has one. Its graph is not opened,
    so nothing in it is executed. `words` and errors are as in `read_tf_checkpoint`.
    """
    index = files.weights
    checkpoint = Bundle(index.path)
    arrays = _read_arrays(checkpoint, index.path)
    bilm = build_bilm_tf(files, arrays, _derive_hub_options(arrays, index), index, **words)
    expected: Dict[str, Shape] = {MIX_WEIGHTS: (bilm.config.n_layers + 1,), MIX_SCALE: ()}
    names = {end: [name for name in checkpoint.variables if f"/{name}".endswith(f"/{end}")] for end in expected}
    mixes: List[LoadedMix] = []
    if all(len(candidates) == 1 for candidates in names.values()):
        stored = checkpoint.read(name for (name,) in names.values())
        mix = {end: stored[name] for end, (name,) in names.items()}
        raise_mismatches(find_mismatches(expected, mix), index, "the layers of its biLM")
        mixes.append(LoadedMix(mix[MIX_WEIGHTS].tolist(), float(mix[MIX_SCALE])))
    bilm.meta = {FORMAT_KEY: "tf-hub", **mixes_to_meta(mixes)}
    return bilm


def _read_arrays(checkpoint: Bundle, file: Path) -> Dict[str, Array]:
    """The variables of the biLM by the names of their datasets."""
    names = _find_datasets(checkpoint.variables, file)
    arrays = checkpoint.read(names.values())
    return {dataset: arrays.pop(name) for dataset, name in names.items()}
