"""What every package may need: installed libraries, allowed values, checks of values, lists in errors."""

import math
import sys
from importlib.util import find_spec
from itertools import islice
from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Literal,
    Mapping,
    Optional,
    Tuple,
    TypeGuard,
    TypeVar,
    get_args,
)

has_cupy: bool = find_spec("cupy") is not None
has_datasets: bool = find_spec("datasets") is not None
has_faiss: bool = find_spec("faiss") is not None
has_matplotlib: bool = find_spec("matplotlib") is not None
has_onnx: bool = find_spec("onnx") is not None
has_pyarrow: bool = find_spec("pyarrow") is not None
has_ray: bool = find_spec("ray") is not None
has_sklearn: bool = find_spec("sklearn") is not None
has_starlette: bool = find_spec("starlette") is not None
has_tensorboard: bool = find_spec("tensorboard") is not None
has_uvicorn: bool = find_spec("uvicorn") is not None
has_zstandard: bool = find_spec("zstandard") is not None


def require_package(is_installed: bool, purpose: str, name: str, remedy: str) -> None:
    """RAISES (ValueError): If the optional package `name` is not installed. The remedy comes after "Install it: "."""
    if not is_installed:
        raise ValueError(f"{purpose} needs {name}, which is not installed. Install it: {remedy}.")


ItemT = TypeVar("ItemT")
# State of the LSTMs at the beginning of a sequence.
StatePolicy = Literal["reset", "steady", "carry"]
STATES: Tuple[StatePolicy, ...] = get_args(StatePolicy)
# Data types of stored values: vectors on Docs and in files.
DType = Literal["float32", "float16"]
DTYPES: Tuple[DType, ...] = get_args(DType)
# Precision of matrix products in inference and in pretraining.
Precision = Literal["float32", "bfloat16", "float16", "int8"]
PRECISIONS: Tuple[Precision, ...] = get_args(Precision)
# Directions of a biLM, in the order of its tensors.
DIRECTIONS = ("forward", "backward")
TrainingPrecision = Literal["auto", "float32", "bfloat16", "float16"]
# Norms of a learned mix: name -> epsilon under the root. "token" is over the values of one token; the other two are
# over all tokens of the batch, as in the reference programs, which differ in epsilon and in whether BOS and EOS are
# among the tokens: that changes values by up to 0.6.
LAYER_NORMS = {"token": 1e-12, "bilm-tf": 1e-12, "allennlp": 1e-13}
# Raw weight of a layer with share 0, in place of minus infinity: all layers have equal shares if all are dropped.
DROPPED = -1e13

FLOAT32_MAX = 3.4028234663852886e38
MAX_SHOWN = 30  # problems listed in an error
MAX_TEXT = 2000  # characters of a problem in an error
MAX_VALUE = 100  # characters of a value in an error
MAX_NAMED = 5  # names, words or line numbers in a message


def hides_progress() -> Optional[bool]:
    """RETURNS (Optional[bool]): The argument `disable` of a progress bar: True in a process without stderr, else None,
    with which tqdm shows the bar on a terminal only.
    """
    return True if sys.stderr is None else None


def is_number(value: Any) -> TypeGuard[float]:
    """RETURNS (bool): Whether a value from a file or config is a finite number; true and false are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < math.inf


def finite_or_none(value: Any) -> Any:
    """RETURNS (Any): The value, for JSON: None for NaN and infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def shorten(text: str, max_characters: int = MAX_TEXT) -> str:
    """RETURNS (str): The text, truncated with "..." if it is longer."""
    return text if len(text) <= max_characters else text[: max_characters - 3] + "..."


def listed(problems: Iterable[str], max_shown: int = MAX_SHOWN) -> str:
    """RETURNS (str): One problem per line, each after a dash, and the number of problems not shown."""
    all_problems = list(problems)
    shown = [shorten(problem) for problem in all_problems[:max_shown]]
    rest = [f"and {len(all_problems) - max_shown:,} more"] if len(all_problems) > max_shown else []
    return "".join(f"\n- {line}" for line in (*shown, *rest))


def find_changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> Dict[str, Tuple[Any, Any]]:
    """RETURNS (Dict[str, Tuple[Any, Any]]): Both values of each name that differ; None where it is missing."""
    names = dict.fromkeys([*then, *now])
    return {name: (then.get(name), now.get(name)) for name in names if then.get(name) != now.get(name)}


def describe_changes(then: Mapping[str, Any], now: Mapping[str, Any], missing: Any = None) -> List[str]:
    """RETURNS (List[str]): Each name that has another value now, for an error; `missing` stands for none."""
    changed = find_changes(then, now)
    values = (
        [shorten(str(record.get(name, missing)), MAX_VALUE) or "''" for record in (then, now)] for name in changed
    )
    return [f"{name}: {old} then, {new} now" for name, (old, new) in zip(changed, values)]


def batched(items: Iterable[ItemT], size: int) -> Iterator[List[ItemT]]:
    """Like `itertools.batched` of Python 3.12.

    YIELDS (List[ItemT]): The next `size` items; fewer at the end.
    """
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
