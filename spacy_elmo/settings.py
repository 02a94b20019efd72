"""Settings of all blocks: types with limits, and errors that name setting, value and limit.

A block is declared once, as a pydantic dataclass, which checks its values when it is created. Its docstring has the
texts for configs and docs.
"""

import re
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from numbers import Integral
from typing import (
    Annotated,
    Any,
    Callable,
    Iterator,
    List,
    Literal,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    cast,
    get_args,
)

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, validate_call

from .errors import Errors
from .util import FLOAT32_MAX, shorten
from .util import DType as DType
from .util import Precision as Precision
from .util import State as State
from .util import TrainingPrecision as TrainingPrecision

Block = TypeVar("Block")
Function = TypeVar("Function", bound=Callable[..., Any])
KNOWN_NAMES = ConfigDict(extra="forbid")
PLAIN_WORDS = (
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
    ("a valid boolean", "true or false"),
    ("a valid dictionary|a dictionary or an instance of .*", "a block of settings"),
)
UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")


def _to_whole(value: Any) -> Any:
    """1e3 is a whole number, and so is an integer of NumPy; true is not."""
    is_whole = value.is_integer() if isinstance(value, float) else type(value) is not bool
    return int(value) if isinstance(value, (float, Integral)) and is_whole else value


def _allow(is_fine: Callable[[str], Any], text: str) -> AfterValidator:
    def check(value: str) -> str:
        require((bool(is_fine(value)), text))
        return value

    return AfterValidator(check)


Whole = Annotated[int, Field(strict=True), BeforeValidator(_to_whole)]
WholeNumber = Annotated[Whole, Field(ge=0)]
Count = Annotated[Whole, Field(ge=1)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-FLOAT32_MAX, le=FLOAT32_MAX)]
Positive = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0, le=FLOAT32_MAX)]
NotNegative = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=FLOAT32_MAX)]
Probability = Annotated[float, Field(strict=True, ge=0, lt=1)]
Share = Annotated[float, Field(strict=True, gt=0, le=1)]
Factor = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=1, le=FLOAT32_MAX)]
Flag = Annotated[bool, Field(strict=True)]
Even = Annotated[Whole, Field(ge=2, multiple_of=2)]
Prefix = Annotated[str, _allow(str.isidentifier, "should be a Python name")]
WeightsPath = Annotated[str, _allow(str.strip, "should not be empty")]

Contexts = Literal["auto", "sentences", "doc"]
Store = Literal["mixed", "layers", "both"]
LayerNorm = Literal["token", "bilm-tf"]
AnyNorm = Literal["token", "bilm-tf", "allennlp"]  # also norms over a batch with BOS and EOS
Mix = Literal["learned", "fixed", "mean", "top", "concat"]


def require(*checks: Tuple[bool, str]) -> None:
    """RAISES (ValueError): With the texts of all checks that are not fine."""
    problems = [text for is_fine, text in checks if not is_fine]
    if problems:
        raise ValueError("; ".join(problems))


def read_block(cls: Type[Block], record: Any, block: str) -> Block:
    """Create a block from plain values.

    cls (Type[Block]): A pydantic dataclass; omitted settings have their default.
    record (Any): The values by name, nested blocks as dictionaries.
    block (str): Its name in errors.
    RETURNS (Block): The block.
    RAISES (ValueError): EL001 for unknown settings, with the known ones; for invalid values. Both with all problems.
    """
    try:
        return TypeAdapter(cls).validate_python(record)
    except ValidationError as error:
        unknown = [entry["loc"] for entry in error.errors() if entry["type"] in UNKNOWN]
        if unknown:
            names = ", ".join(map(_join, unknown))
            known = ", ".join(_names(_find_block(cls, unknown[0][:-1])))
            raise ValueError(Errors.EL001.format(block=block, unknown=names, known=known)) from None
        problems = "; ".join(describe_problems(error))
        raise ValueError(f"The {block} is invalid: {problems}. Correct these settings.") from None


def check_record(cls: Type[Block], record: Any) -> Tuple[Optional[Block], List[str]]:
    """RETURNS (Tuple[Optional[Block], List[str]]): The block of a record in a file, or None, and all problems."""
    try:
        return TypeAdapter(cls).validate_python(record), []
    except ValidationError as error:
        return None, describe_problems(error)


def takes(block: Any) -> Callable[[Function], Function]:
    """Declare that the `**settings` of a function are those of a block, for readers of configs and signatures."""

    def declare(function: Function) -> Function:
        declared: Any = function
        declared.block = block
        named = [item for item in signature(function).parameters.values() if item.kind is not Parameter.VAR_KEYWORD]
        items = [item.replace(kind=Parameter.KEYWORD_ONLY) for item in signature(block).parameters.values()]
        declared.__signature__ = signature(function).replace(parameters=[*named, *items])
        declared.__annotations__ |= {item.name: item.annotation for item in items}
        return function

    return declare


def check_arguments(function: Function) -> Function:
    """Check the arguments of a method by their types.

    RAISES (ValueError): EL060 for invalid values, with all problems.
    """
    checked = validate_call(config={"arbitrary_types_allowed": True})(function)

    @wraps(function)
    def call(self: Any, *args: Any, **settings: Any) -> Any:
        named = list(signature(function).bind(self, *args, **settings).arguments.items())[1:]
        try:
            return checked(self, **dict(named))
        except ValidationError as error:
            block, problems = function.__qualname__.removesuffix(".__init__"), describe_problems(error)
            raise ValueError(Errors.EL060.format(block=block, problems="; ".join(problems))) from None

    return cast(Function, call)


def describe_problems(error: ValidationError) -> List[str]:
    """RETURNS (List[str]): A line for each problem: the setting, its value, and what it should be."""
    problems = []
    for entry in error.errors():
        name, text = _join(entry["loc"]), entry["msg"].partition(" ")[2]  # without "Input", "String"
        if entry["type"] == "value_error":
            text = str(entry["ctx"]["error"])
        if text.startswith("should"):
            for pydantic, plain in PLAIN_WORDS:
                text = re.sub(pydantic, plain, text)
            problems.append(f"{name} is {shorten(repr(entry['input']), 80)}, {text}")
        else:
            text = {"missing": "is missing", **dict.fromkeys(UNKNOWN, "is not a setting")}.get(entry["type"], text)
            problems.append(f"{name} {text}" if text.startswith("is ") else f"{name}: {text}" if name else text)
    return problems


def _join(path: Sequence[Any]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")


def _names(cls: Any) -> List[str]:
    return [item.name for item in fields(cls)]


def _blocks(cls: Any, path: str = "") -> Iterator[Tuple[str, Any]]:
    """YIELDS (Tuple[str, Any]): All blocks below a block, and itself, with their dotted names."""
    yield path, cls
    for item in fields(cls):
        for inner in _types(item.type):
            if isinstance(inner, type) and is_dataclass(inner):
                yield from _blocks(inner, f"{path}.{item.name}".removeprefix("."))


def _types(hint: Any) -> Iterator[Any]:
    yield hint
    for inner in get_args(hint):
        yield from _types(inner)


def _find_block(cls: Any, path: Sequence[Any]) -> Any:
    return dict(_blocks(cls)).get(_join(path), cls)
