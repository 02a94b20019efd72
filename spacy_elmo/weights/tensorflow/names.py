"""Names of variables in checkpoints of bilm-tf and modules of TF-Hub, and their datasets in files of bilm-tf.

TensorFlow renamed the variables of LSTMs in 1.0 (`RNN/MultiRNNCell/Cell0/LSTMCell/W_0` to
`rnn/multi_rnn_cell/cell_0/lstm_cell/weights`) and in 1.2 (`weights` to `kernel`). Modules of TF-Hub have both kinds of
scopes: `RNN/MultiRNNCell/Cell0/rnn/lstm_cell/kernel`. Biases of one layer have no name of a cell.
"""

import re
from typing import Any, Dict, Iterable, List, Optional

from ...errors import Errors
from ..bilm_tf.layout import CHAR_TABLE, FORWARD_ONLY_PREFIX, WORD_TABLE
from ..limits import listed
from .slices import DTYPES, Variable

LSTM = re.compile(
    r"(?:RNN_(?P<direction>\d+)/)?(?:rnn|RNN)/(?:(?:multi_rnn_cell|MultiRNNCell)/(?:cell_|Cell)(?P<layer>\d+)/)?"
    r"(?:rnn/)?(?:lstm_cell|LSTMCell)/(?P<kind>[\w/]+)"
)
KINDS = {
    **dict.fromkeys(("kernel", "weights", "W_0"), "W_0"),
    **dict.fromkeys(("bias", "biases", "B"), "B"),
    **dict.fromkeys(("projection/kernel", "projection/weights", "W_P_0"), "W_P_0"),
}
SLOT = re.compile(r"(?P<variable>.+)/(?P<slot>Adagrad|Adam|AdaDelta|Adadelta|Ftrl|Momentum|RMSProp|Moving\w+)(_\d+)?")
ADAGRAD = "Adagrad"
# Variables that training adds to those of the model.
BOOKKEEPING = re.compile(r"(.*/)?(global_step|train_perplexity|beta\d_power|ExponentialMovingAverage)")
MAX_NAMED = 8


def find_scope(names: Iterable[str], path: object) -> str:
    """Find the scope of the biLM: what stands before `char_embed` or `embedding`, with LSTMs beside it.

    names (Iterable[str]): All variables.
    path (object): The checkpoint, for messages.
    RETURNS (str): The scope with its slash, for example "lm/", or empty.
    RAISES (ValueError): EL322 if there is no biLM, EL323 if there are several.
    """
    known = sorted(names)
    ends = (CHAR_TABLE, WORD_TABLE)
    scopes = {name.removesuffix(end) for name in known for end in ends if name == end or name.endswith(f"/{end}")}
    found = sorted(scope for scope in scopes if any(_is_lstm(name, scope) for name in known))
    if not found:
        raise ValueError(Errors.EL322.format(path=path, n=len(known), names=listed(known, MAX_NAMED)))
    if len(found) > 1:
        raise ValueError(Errors.EL323.format(path=path, n=len(found), scopes=", ".join(map(repr, found[:MAX_NAMED]))))
    return found[0]


def find_datasets(variables: Dict[str, Variable], path: object) -> Dict[str, str]:
    """Find the variables of the biLM.

    variables (Dict[str, Variable]): All variables.
    path (object): The checkpoint, for messages.
    RETURNS (Dict[str, str]): Variables by the name of their dataset. Slots of optimizers and counters are left out;
        other variables in the scope of the biLM are kept, so that they are reported.
    RAISES (ValueError): EL322, EL323.
    """
    scope = find_scope(variables, path)
    found: Dict[str, str] = {}
    for name in sorted(variables):
        inner = name.removeprefix(scope)
        is_extra = not name.startswith(scope) or SLOT.fullmatch(inner) or BOOKKEEPING.fullmatch(inner)
        if not is_extra and variables[name].dtype in DTYPES:
            found[_dataset(inner)] = name
    return found


def find_accumulators(variables: Dict[str, Variable], path: object) -> Dict[str, str]:
    """variables (Dict[str, Variable]): All variables.
    path (object): The checkpoint, for messages.
    RETURNS (Dict[str, str]): Adagrad's accumulators by the name of the dataset of their variable; empty if the
        checkpoint has none.
    RAISES (ValueError): EL322, EL323.
    """
    datasets = {variable: dataset for dataset, variable in find_datasets(variables, path).items()}
    slots = {name: match for name in variables if (match := SLOT.fullmatch(name)) and match["slot"] == ADAGRAD}
    return {datasets[match["variable"]]: name for name, match in slots.items() if match["variable"] in datasets}


def find_ending(names: Iterable[str], ending: str) -> Optional[str]:
    """RETURNS (Optional[str]): The only name that ends in whole parts like this, None for none or several."""
    found: List[str] = [name for name in names if f"/{name}".endswith(f"/{ending}")]
    return found[0] if len(found) == 1 else None


def _is_lstm(name: str, scope: str) -> Any:
    return name.startswith(scope) and LSTM.fullmatch(name.removeprefix(scope))


def _dataset(name: str) -> str:
    """The name of the dataset of a variable. That of a forward model begins with `rnn/`, as in its dumps."""
    match = LSTM.fullmatch(name)
    if match is None or match["kind"] not in KINDS:
        return name
    prefix = FORWARD_ONLY_PREFIX if match["direction"] is None else f"RNN_{match['direction']}/RNN/"
    return f"{prefix}MultiRNNCell/Cell{match['layer'] or 0}/LSTMCell/{KINDS[match['kind']]}"
