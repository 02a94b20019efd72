"""biLMs in checkpoints of bilm-tf and in modules of TF-Hub."""

import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..inference.bilm import BiLM
from ..util import listed, shorten
from .bilm_tf import (
    CHAR_TABLE,
    FORWARD_ONLY_PREFIX,
    WORD_TABLE,
    cell_of,
    derive_options,
    read_bilm_tf,
)
from .detect import SHARD, ModelFiles
from .parts import LoadedMix, mixes_to_meta, refuse_misfits
from .sources import Source
from .tensor_map import Array, Shape, find_misfits
from .tf_bundle import DTYPES, INDEX_SUFFIX, Bundle, Variable

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


def _derive_options(arrays: Mapping[str, Array], source: Source) -> Dict[str, Any]:
    """arrays (Mapping[str, Array]): Of a TF-Hub module of ELMo, by the names of their datasets.
    source (Source): The module.
    RETURNS (Dict[str, Any]): Options for these shapes.
    RAISES (ValueError): If sizes cannot be derived.
    """
    names = {"characters": CHAR_TABLE, "filters": "CNN/W_cnn_{}", "highways": "CNN_high_{}/W_carry"}
    names["gates"] = cell_of(0, 0).replace("Cell0", "Cell{}") + "W_0"
    if f"{cell_of(0, 0)}W_P_0" in arrays:
        names["projections"] = f"{cell_of(0, 0)}W_P_0"
    options, problems = derive_options({name: array.shape for name, array in arrays.items()}, names, 4)
    if problems:
        listing = shorten("; ".join(problems))
        raise ValueError(
            f"The sizes of the biLM in the TF-Hub module '{source}' cannot be derived from its variables: "
            f"{listing}. Use a module of ELMo such as google/elmo/3."
        )
    return options


# Read checkpoints of bilm-tf, with their softmax, and modules of TF-Hub, with their mix, into a `BiLM`.

MIX_WEIGHTS, MIX_SCALE = "aggregation/weights", "aggregation/scaling"
GLOBAL_STEP = "global_step"


def read_tf_checkpoint(files: ModelFiles, **words: Optional[Source]) -> BiLM:
    """Read a checkpoint of bilm-tf, with its softmax.

    files (ModelFiles): Its files; the weights are PREFIX.index.
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


def read_tf_hub(files: ModelFiles, **words: Optional[Source]) -> Tuple[BiLM, Sequence[LoadedMix]]:
    """Read a module of TF-Hub. Its graph is not opened, so nothing in it is executed.

    files (ModelFiles): Its files; the weights are the index of its variables.
    **words (Optional[Source]): `vocab`, `token_embeddings` and `softmax`, see `read_bilm_tf`.
    RETURNS (Tuple[BiLM, Sequence[LoadedMix]]): The biLM without a softmax, and the mix if it has one.
    RAISES (ValueError): EL022 for files of the module; see `read_bilm_tf` for all others.
    """
    index = files.weights
    checkpoint = open_checkpoint(index.path)
    arrays = _read_arrays(checkpoint, index.path)
    bilm = read_bilm_tf(files, **words, arrays=arrays, options=_derive_options(arrays, index))
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
