"""biLMs in checkpoints of bilm-tf and in modules of TF-Hub, and the accumulators of Adagrad in checkpoints."""

import re
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..errors import Errors
from ..inference.bilm import BiLM
from ..util import listed, to_path
from .bilm_tf import (
    CHAR_TABLE,
    FORWARD_ONLY_PREFIX,
    SOFTMAX_BIAS,
    SOFTMAX_WEIGHT,
    TOKEN_EMBEDDINGS_NAME,
    VOCAB_NAME,
    WORD_TABLE,
    TFFiles,
    find_options,
    official_options,
    only_source,
    read_bilm_tf,
    regular_name,
    tf_arrays,
    tf_datasets,
)
from .parts import LoadedMix, as_float32, mixes_to_meta, network_shapes, refuse_misfits
from .sources import MIB, PathLike, Source, list_sources, unreadable
from .tensor_map import Array, Shape, find_misfits, import_arrays
from .tf_bundle import DTYPES, INDEX_SUFFIX, KIND, Bundle, Variable, incomplete, is_sorted_table

# Names of variables in checkpoints of bilm-tf and modules of TF-Hub, and their datasets in files of bilm-tf.
#
# TensorFlow renamed the variables of LSTMs in 1.0 (`RNN/MultiRNNCell/Cell0/LSTMCell/W_0` to
# `rnn/multi_rnn_cell/cell_0/lstm_cell/weights`) and in 1.2 (`weights` to `kernel`). Modules of TF-Hub have both kinds
# of scopes: `RNN/MultiRNNCell/Cell0/rnn/lstm_cell/kernel`. Biases of one layer have no name of a cell.

LSTM = re.compile(
    r"(?:RNN_(?P<direction>\d+)/)?(?:rnn|RNN)/(?:(?:multi_rnn_cell|MultiRNNCell)/(?:cell_|Cell)(?P<layer>\d+)/)?"
    r"(?:rnn/)?(?:lstm_cell|LSTMCell)/(?P<kind>[\w/]+)"
)
PARTS = {
    **dict.fromkeys(("kernel", "weights", "W_0"), "W_0"),
    **dict.fromkeys(("bias", "biases", "B"), "B"),
    **dict.fromkeys(("projection/kernel", "projection/weights", "W_P_0"), "W_P_0"),
}
SLOT = re.compile(r"(?P<variable>.+)/(?P<slot>Adagrad|Adam|AdaDelta|Adadelta|Ftrl|Momentum|RMSProp|Moving\w+)(_\d+)?")
# Variables that training adds to those of the model.
BOOKKEEPING = re.compile(r"(.*/)?(global_step|train_perplexity|beta\d_power|ExponentialMovingAverage)")
MAX_NAMED = 8


def find_datasets(variables: Mapping[str, Variable], path: object) -> Dict[str, str]:
    """Find the variables of the biLM: all in the scope with `char_embed` or `embedding` and LSTMs.

    variables (Mapping[str, Variable]): All variables.
    path (object): The checkpoint, for messages.
    RETURNS (Dict[str, str]): Variables by the name of their dataset. Slots of optimizers and counters are left out;
        other variables in the scope of the biLM are kept, so that they are reported.
    RAISES (ValueError): If there is no biLM, if there are several.
    """
    known = sorted(variables)
    ends = (CHAR_TABLE, WORD_TABLE)
    scopes = {name.removesuffix(end) for name in known for end in ends if f"/{name}".endswith(f"/{end}")}
    scopes = {
        scope for scope in scopes if any(name.startswith(scope) and LSTM.fullmatch(name, len(scope)) for name in known)
    }
    if not scopes:
        raise ValueError(
            f"The TensorFlow checkpoint '{path}' has no biLM: none of its {len(known)} variables is 'char_embed' "
            f"or 'embedding' in a scope with LSTMs. It has:{listed(known, MAX_NAMED)}\nUse a checkpoint of "
            "bilm-tf, or a module of TF-Hub such as google/elmo/3."
        )
    if len(scopes) > 1:
        listing = ", ".join(map(repr, sorted(scopes)[:MAX_NAMED]))
        raise ValueError(
            f"The TensorFlow checkpoint '{path}' has {len(scopes)} biLMs, in the scopes {listing}, but should have "
            "one. Save the variables of one of them in a checkpoint of its own."
        )
    (scope,) = scopes
    found: Dict[str, str] = {}
    for name in known:
        inner = name.removeprefix(scope)
        is_extra = not name.startswith(scope) or SLOT.fullmatch(inner) or BOOKKEEPING.fullmatch(inner)
        if not is_extra and variables[name].dtype in DTYPES:
            dataset = _dataset(inner)
            found[inner if dataset in found else dataset] = name  # a second one is reported as unexpected
    return found


def _dataset(name: str) -> str:
    """The name of the dataset of a variable. That of a forward model begins with `rnn/`, as in its dumps."""
    match = LSTM.fullmatch(name)
    if match is None or match["kind"] not in PARTS:
        return name
    prefix = FORWARD_ONLY_PREFIX if match["direction"] is None else f"RNN_{match['direction']}/RNN/"
    return f"{prefix}MultiRNNCell/Cell{match['layer'] or 0}/LSTMCell/{PARTS[match['kind']]}"


def find_accumulators(variables: Mapping[str, Variable], path: object) -> Dict[str, str]:
    """RETURNS (Dict[str, str]): Adagrad's accumulators by the name of the dataset of their variable; empty if the
    checkpoint has none.
    """
    datasets = {variable: dataset for dataset, variable in find_datasets(variables, path).items()}
    slots = {name: match for name in variables if (match := SLOT.fullmatch(name)) and match["slot"] == "Adagrad"}
    return {datasets[match["variable"]]: name for name, match in slots.items() if match["variable"] in datasets}


# Find the files of a TensorFlow checkpoint or of a TF-Hub module.

STATE_NAME = "checkpoint"  # text with the name of the newest checkpoint
MAX_STATE_BYTES = MIB
NEWEST = re.compile(rb'^[ \t]*model_checkpoint_path\s*:\s*"((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)")
SHARDS = re.compile(r"-\?{5}-of-\d{5}$")  # all files of an old checkpoint in format V1, in a file `checkpoint`
SHARD = re.compile(r"(?P<prefix>.+?)(\.data)?-\d{5}-of-\d{5}")
GRAPHS = ("saved_model.pb", "tfhub_module.pb")
HUB_INDEX = Path("variables") / "variables.index"
CHECKPOINT_WANTED = (
    "a folder with a checkpoint of TensorFlow (checkpoint, *.index, *.data-*) and options.json; the path of such a "
    "checkpoint, with or without .index"
)
HUB_WANTED = f"a folder of a TF-Hub module with {' or '.join(GRAPHS)} and {HUB_INDEX.as_posix()}"

# TensorFlow before 0.12; `tf.train.load_checkpoint` reads it to this day.
CONVERSION = """
    import tensorflow.compat.v1 as tf; tf.disable_eager_execution(); reader = tf.train.load_checkpoint({path!r})
    variables = {{name: tf.Variable(reader.get_tensor(name)) for name in reader.get_variable_to_shape_map()}}
    session = tf.Session(); session.run(tf.global_variables_initializer())
    tf.train.Saver(variables).save(session, {new!r})
"""


def open_checkpoint(file: Path) -> Bundle:
    """file (Path): From `find_checkpoint`.
    RETURNS (Bundle): With its variables, but not their values.
    RAISES (ValueError): For a checkpoint in format V1, which is not read; EL022 if the index is damaged.
    """
    if not file.name.endswith(INDEX_SUFFIX):
        match = SHARD.fullmatch(file.name)
        prefix = file.with_name(match["prefix"]) if match else file
        path = f"{prefix}-?????-of-{file.name[-5:]}" if match else str(prefix)
        conversion = CONVERSION.format(path=path, new=f"{prefix}-v2")
        raise ValueError(
            f"'{file}' is a TensorFlow checkpoint in the old format V1, should be in format V2 (PREFIX.index and "
            f"PREFIX.data-00000-of-00001). Convert it where TensorFlow is installed:{conversion}"
        )
    return Bundle(file)


def find_checkpoint(path: Path) -> Optional[Path]:
    """Find the file of a checkpoint with the names of its variables.

    path (Path): A folder, a file of a checkpoint, or the prefix of its files, which need not exist itself.
    RETURNS (Optional[Path]): PREFIX.index, or the first file of format V1; None if this is not a checkpoint.
    RAISES (ValueError): EL022 for a damaged file `checkpoint`, if the checkpoint that it names is missing; if
        there are several checkpoints, and none is named.
    """
    if path.is_dir():
        return _in_folder(path)
    if path.name == STATE_NAME and path.is_file():
        return _in_folder(path.parent)
    if path.name.endswith(INDEX_SUFFIX) and (is_sorted_table(path) or _data_files(path)):
        return path
    match = SHARD.fullmatch(path.name)
    prefix = path.with_name(match["prefix"]) if match else path
    return _of_prefix(prefix.with_suffix("") if path.suffix == ".meta" else prefix)


def detect_tf_checkpoint(path: Path, options: Optional[Source] = None) -> Optional[TFFiles]:
    """path (Path): A folder, a file, or the prefix of the files of a checkpoint.
    options (Optional[Source]): Its options, which may be in another folder; by default those beside it.
    RETURNS (Optional[TFFiles]): The files; None for another format.
    RAISES (ValueError): EL020 without options, EL021 if there are several; see `find_checkpoint`.
    """
    file = find_checkpoint(path)
    if file is None:
        return None
    beside = list_sources(file.parent)
    if options is None:
        own = [beside["options.json"]] if "options.json" in beside else find_options(beside.values())
        options = only_source(own, file, "options", ["options.json"], "a TensorFlow checkpoint")
    # The vocabulary of the released models is vocab-2016-09-10.txt.
    named = [name for name in beside if name.startswith("vocab") and name.endswith(".txt")]
    vocab = beside.get(VOCAB_NAME, beside[named[0]] if len(named) == 1 else None)
    return TFFiles(options, Source(file), vocab, beside.get(TOKEN_EMBEDDINGS_NAME))


def detect_tf_hub(path: Path) -> Optional[Source]:
    """path (Path): A folder or file that exists.
    RETURNS (Optional[Source]): The index of the variables of a module; None for another format.
    RAISES (ValueError): EL020 for a module without variables.
    """
    folder = path.parent.parent if path.parts[-2:] == HUB_INDEX.parts else path
    if not any((folder / name).is_file() for name in GRAPHS):
        return None
    if not (folder / HUB_INDEX).is_file():
        reason = f"{HUB_INDEX.as_posix()} is missing"
        raise ValueError(Errors.EL020.format(path=path, reason=reason, wanted=HUB_WANTED))
    return Source(folder / HUB_INDEX)


def _in_folder(folder: Path) -> Optional[Path]:
    state = folder / STATE_NAME
    name = _newest(state) if state.is_file() else None
    if name is not None:
        found = _of_prefix(folder / name)
        if found is None:
            raise incomplete(state, f"{name}{INDEX_SUFFIX}")
        return found
    indices = [folder / name for name in list_sources(folder) if name.endswith(INDEX_SUFFIX)]
    indices = [file for file in indices if _data_files(file)]
    if len(indices) > 1:
        names = ", ".join(file.name for file in indices)
        raise ValueError(
            f"'{folder}' has {len(indices)} TensorFlow checkpoints ({names}), and no file 'checkpoint' that names "
            "the newest. Pass the path of one of the .index files."
        )
    return indices[0] if indices else None


def _newest(state: Path) -> Optional[str]:
    """The name in a file `checkpoint`, without its folder, which may be that of another machine."""
    match = NEWEST.search(Source(state).read_bytes(MAX_STATE_BYTES).removeprefix(BOM_UTF8))
    if match is None:
        return None
    path = ESCAPE.sub(lambda found: bytes([int(found[1], 8) % 256]) if found[1].isdigit() else found[1], match[1])
    name = SHARDS.sub("", re.split(r"[/\\]", path.decode("utf8", errors="replace"))[-1])
    if name in ("", ".", "..") or "\0" in name:
        raise unreadable(state, KIND, "the name of the newest checkpoint is empty")
    return name


def _of_prefix(prefix: Path) -> Optional[Path]:
    """The file of a checkpoint with this prefix: format V2, or format V1 in one file or several."""
    index = prefix.with_name(prefix.name + INDEX_SUFFIX)
    if index.is_file():
        return index
    return next((file for file in (prefix, *_matching(prefix, "")[:1]) if is_sorted_table(file)), None)


def _data_files(index: Path) -> List[Path]:
    return _matching(index.with_name(index.name.removesuffix(INDEX_SUFFIX)), ".data")


def _matching(prefix: Path, ending: str) -> List[Path]:
    if not prefix.parent.is_dir():
        return []
    pattern = re.compile(re.escape(prefix.name + ending) + r"-\d{5}-of-\d{5}")
    return sorted(file for file in prefix.parent.iterdir() if pattern.fullmatch(file.name))


FIRST_CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/"


def derive_options(arrays: Mapping[str, Array], source: Source) -> Dict[str, Any]:
    """arrays (Mapping[str, Array]): Of a TF-Hub module of ELMo, by the names of their datasets.
    source (Source): The module.
    RETURNS (Dict[str, Any]): Options for these shapes.
    RAISES (ValueError): If sizes cannot be derived.
    """
    filters = [f"CNN/W_cnn_{i}" for i in range(max(_count(arrays, r"CNN/W_cnn_(\d+)"), 1))]
    ranks = {CHAR_TABLE: 2, FIRST_CELL + "W_0": 2, **dict.fromkeys(filters, 4)}
    shapes = {name: arrays[name].shape for name in ranks if name in arrays}
    problems = [f"{name} is missing" for name in ranks if name not in shapes]
    problems += [
        f"{name} is {list(shape)}, should have {ranks[name]} dimensions"
        for name, shape in shapes.items()
        if len(shape) != ranks[name]
    ]
    if problems:
        listing = "; ".join(problems)
        raise ValueError(
            f"The sizes of the biLM in the TF-Hub module '{source}' cannot be derived from its variables: "
            f"{listing}. Use a module of ELMo such as google/elmo/3."
        )
    width = shapes[FIRST_CELL + "W_0"][1] // 4
    projection = arrays.get(FIRST_CELL + "W_P_0")
    return official_options(
        cell_width=width,
        projection_width=width if projection is None or len(projection.shape) != 2 else projection.shape[1],
        n_layers=_count(arrays, r"RNN_0/RNN/MultiRNNCell/Cell(\d+)/LSTMCell/W_0"),
        embedding_width=shapes[CHAR_TABLE][1],
        filters=[[shapes[name][1], shapes[name][3]] for name in filters],
        n_highway=_count(arrays, r"CNN_high_(\d+)/W_carry"),
    )


def _count(arrays: Mapping[str, Array], pattern: str) -> int:
    """How many numbers from 0 on occur in names."""
    numbers = {int(match[1]) for name in arrays if (match := re.fullmatch(pattern, name))}
    return next(n for n in range(len(numbers) + 1) if n not in numbers)


# Read checkpoints of bilm-tf, with their softmax, and modules of TF-Hub, with their mix, into a `BiLM`.

MIX_WEIGHTS, MIX_SCALE = "aggregation/weights", "aggregation/scaling"
GLOBAL_STEP = "global_step"


def read_tf_checkpoint(files: TFFiles, **words: Optional[Source]) -> BiLM:
    """Read a checkpoint of bilm-tf, with its softmax.

    files (TFFiles): Its files; the weights are PREFIX.index.
    **words (Optional[Source]): `vocab`, `token_embeddings` and `softmax`, see `read_bilm_tf`.
    RETURNS (BiLM): float32, on the CPU.
    RAISES (ValueError): EL022 for files of the checkpoint; see `read_bilm_tf` for all others.
    """
    file = files.weights.path
    checkpoint = open_checkpoint(file)
    bilm = read_bilm_tf(files, **words, arrays=_read_arrays(checkpoint, file))
    bilm.meta = {"source_format": "tf-checkpoint", "checkpoint": file.name}
    step = checkpoint.variables.get(GLOBAL_STEP)
    if step is not None and step.shape == () and step.dtype == 1:  # bilm-tf counts updates in floating point
        n_updates = float(checkpoint.read([GLOBAL_STEP])[GLOBAL_STEP])
        bilm.meta.update({"n_updates": int(n_updates)} if 0 <= n_updates < 2**53 else {})
    return bilm


def read_tf_hub(index: Source, **words: Optional[Source]) -> Tuple[BiLM, Sequence[LoadedMix]]:
    """Read a module of TF-Hub. Its graph is not opened, so nothing in it is executed.

    index (Source): The index of its variables.
    **words (Optional[Source]): `vocab`, `token_embeddings` and `softmax`, see `read_bilm_tf`.
    RETURNS (Tuple[BiLM, Sequence[LoadedMix]]): The biLM without a softmax, and the mix if it has one.
    RAISES (ValueError): EL022 for files of the module; see `read_bilm_tf` for all others.
    """
    checkpoint = open_checkpoint(index.path)
    arrays = _read_arrays(checkpoint, index.path)
    bilm = read_bilm_tf(TFFiles(index, index), **words, arrays=arrays, options=derive_options(arrays, index))
    wanted: Dict[str, Shape] = {MIX_WEIGHTS: (bilm.config.n_layers + 1,), MIX_SCALE: ()}
    names = {end: [name for name in checkpoint.variables if f"/{name}".endswith(f"/{end}")] for end in wanted}
    mixes: List[LoadedMix] = []
    if all(len(found) == 1 for found in names.values()):
        stored = checkpoint.read(name for (name,) in names.values())
        mix = {end: stored[name] for end, (name,) in names.items()}
        refuse_misfits(find_misfits(wanted, mix), index, "the layers of its biLM")
        mixes.append(LoadedMix(mix[MIX_WEIGHTS].tolist(), float(mix[MIX_SCALE])))
    bilm.meta = {"source_format": "tf-hub", **mixes_to_meta(mixes)}
    return bilm, mixes


def _read_arrays(checkpoint: Bundle, file: Path) -> Dict[str, Array]:
    """The variables of the biLM by the names of their datasets."""
    names = find_datasets(checkpoint.variables, file)
    arrays = checkpoint.read(names.values())
    return {dataset: arrays.pop(name) for dataset, name in names.items()}


# Adagrad's accumulators (sums of squared gradients) in a training checkpoint of bilm-tf, in our layout.

MASK_ROW = "char_cnn.embedding"  # its first row is not in the files, and has no gradient


def no_accumulators(path: object, reason: str) -> ValueError:
    """RETURNS (ValueError): Accumulators cannot be taken over, and why."""
    return ValueError(
        f"Adagrad's accumulators cannot be taken over from '{path}': {reason}. Pass a training checkpoint of "
        "bilm-tf in paths.init, or set pretraining.optimizer.init_accumulators = false to start with "
        "initial_accumulator."
    )


def has_accumulators(path: PathLike) -> bool:
    """path (PathLike): A biLM in any format.
    RETURNS (bool): Whether it is a TensorFlow checkpoint with Adagrad's accumulators.
    RAISES (ValueError): EL022 for a damaged checkpoint.
    """
    checkpoint = _open(path)
    return checkpoint is not None and bool(find_accumulators(checkpoint.variables, path))


def read_accumulators(path: PathLike, bilm: BiLM, *, initial: float) -> Dict[str, Array]:
    """Read the accumulators of all parameters of a biLM and its softmax.

    path (PathLike): The checkpoint that the biLM was loaded from.
    bilm (BiLM): The biLM.
    initial (float): Value for the row of the mask, which bilm-tf does not have.
    RETURNS (Dict[str, Array]): float32 arrays by the names "network.NAME" and "head.NAME" of the parameters.
    RAISES (ValueError): If it is not a checkpoint, has no accumulators for some parameters, or others that do not
        fit or are not positive; EL022 if it is damaged.
    """
    checkpoint = _open(path)
    if checkpoint is None:
        raise no_accumulators(path, "it is not a TensorFlow checkpoint")
    names = find_accumulators(checkpoint.variables, path)
    if not names:
        raise no_accumulators(path, "it has no variables that end in '/Adagrad'")
    stored = checkpoint.read(names.values())
    arrays = {regular_name(dataset): stored[name] for dataset, name in names.items()}
    wanted = {name: array.shape for name, array in tf_arrays(bilm).items()}
    problems = find_misfits(wanted, arrays)
    problems += [f"not positive: {name}" for name in sorted(set(arrays) & set(wanted)) if not (arrays[name] > 0).all()]
    if problems:
        reason = f"they have {len(problems)} problem(s):{listed(problems)}\n"
        raise no_accumulators(path, reason)
    return _to_ours(arrays, bilm, initial)


def _open(path: PathLike) -> Optional[Bundle]:
    file = find_checkpoint(to_path(path))
    return None if file is None else open_checkpoint(file)


def _to_ours(arrays: Dict[str, Array], bilm: BiLM, initial: float) -> Dict[str, Array]:
    state = import_arrays(tf_datasets(bilm.config), arrays, network_shapes(bilm.config))
    if MASK_ROW in state:
        state[MASK_ROW][0] = np.float32(initial or 1.0)
    sums = {f"network.{key}": array for key, array in state.items()}
    for dataset, key in ((SOFTMAX_WEIGHT, "head.weight"), (SOFTMAX_BIAS, "head.bias")):
        if dataset in arrays:
            sums[key] = as_float32(arrays[dataset])
    return sums
