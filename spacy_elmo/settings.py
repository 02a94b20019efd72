"""Settings of all blocks: types with limits, and errors that name setting, value and limit.

A block is declared once, as a pydantic dataclass, which checks its values when it is created. Its docstring has the
texts for configs and docs.
"""

from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache, wraps
from inspect import Parameter, signature
from numbers import Integral
from types import MappingProxyType
from typing import (
    Annotated,
    Any,
    Callable,
    Iterable,
    Iterator,
    List,
    Literal,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
    cast,
    get_args,
)

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, validate_call

from .errors import Errors
from .util import FLOAT32_MAX, shorten
from .util import DType as DType
from .util import Precision as Precision
from .util import StatePolicy as StatePolicy
from .util import TrainingPrecision as TrainingPrecision

BlockT = TypeVar("BlockT")
Function = TypeVar("Function", bound=Callable[..., Any])
KNOWN_NAMES = ConfigDict(extra="forbid")
# What pydantic says in other words: by the type of an error, and in its messages.
PLAIN_WORDS = {
    **dict.fromkeys(("bool_type", "bool_parsing"), "should be true or false"),
    **dict.fromkeys(("dataclass_type", "dict_type", "mapping_type"), "should be a block of settings"),
    **dict.fromkeys(("unexpected_keyword_argument", "extra_forbidden"), "is not a setting"),
    "missing": "is missing",
}
LIMITS = {"greater than or equal to": "at least", "less than or equal to": "at most"}
UNKNOWN_SETTING = ("unexpected_keyword_argument", "extra_forbidden")


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
MixNorm = Literal["token", "bilm-tf"]
AnyNorm = Literal["token", "bilm-tf", "allennlp"]  # also norms over a batch with BOS and EOS
Mix = Literal["learned", "fixed", "mean", "top", "concat"]


@dataclass(frozen=True)
class Problem:
    """What is wrong with a setting.

    path (Tuple[Any, ...]): Its blocks, its name, and positions in lists; empty for a whole block.
    text (str): What is wrong, to be read after the name: "is 5, should be at most 3".
    others (Tuple[str, ...]): Names of other settings, for which `{}` stands in the text.
    is_unknown (bool): Whether the block has no such setting.
    """

    path: Tuple[Any, ...]
    text: str
    others: Tuple[str, ...] = ()
    is_unknown: bool = False

    def describe(self, names: Mapping[str, str] = MappingProxyType({})) -> str:
        """names (Mapping[str, str]): The names that settings have in a file, by ours."""
        named = next((i for i, key in enumerate(self.path) if key in names), None)
        name = _join_path(self.path) if named is None else names[self.path[named]] + _suffix(self.path[named + 1 :])
        text = self.text.format(*(names.get(other, other) for other in self.others)) if self.others else self.text
        separator = " " if text.startswith(("is ", "has ", "should ")) else ": "
        return f"{name}{separator}{text}" if name else text


class SettingsError(ValueError):
    """Settings are invalid; the arguments are all problems."""

    def __str__(self) -> str:
        return list_problems(self.args)


def list_problems(problems: Iterable[Problem], names: Mapping[str, str] = MappingProxyType({})) -> str:
    """RETURNS (str): All problems in a line, with the names that settings have in a file."""
    return "; ".join(problem.describe(names) for problem in problems)


def require(*checks: Tuple[bool, Union[str, Problem]]) -> None:
    """RAISES (SettingsError): With the problems of all checks that are not fine; a text is one of the whole block."""
    failed = [problem for is_fine, problem in checks if not is_fine]
    problems = [Problem((), problem) if isinstance(problem, str) else problem for problem in failed]
    if problems:
        raise SettingsError(*problems)


def read_block(cls: Type[BlockT], record: Any, block: str) -> BlockT:
    """Create a block from plain values.

    cls (Type[BlockT]): A pydantic dataclass; omitted settings have their default.
    record (Any): The values by name, nested blocks as dictionaries.
    block (str): Its name in errors.
    RETURNS (BlockT): The block.
    RAISES (ValueError): EL001 for unknown settings, with the known ones; for invalid values. Both with all problems.
    """
    checked, problems = check_record(cls, record)
    if checked is not None:
        return checked
    unknown = [problem.path for problem in problems if problem.is_unknown]
    if unknown:
        known = ", ".join(item.name for item in fields(_find_block(cls, unknown[0][:-1])))
        raise ValueError(Errors.EL001.format(block=block, unknown=", ".join(map(_join_path, unknown)), known=known))
    raise ValueError(f"The {block} is invalid: {list_problems(problems)}. Correct these settings.")


def check_record(cls: Type[BlockT], record: Any) -> Tuple[Optional[BlockT], List[Problem]]:
    """The one check of settings, wherever they are from.

    cls (Type[BlockT]): A pydantic dataclass, or the type of a single value.
    record (Any): The values by name, or the value.
    RETURNS (Tuple[Optional[BlockT], List[Problem]]): The block or the value, None if it has problems; and the problems.
    """
    kind: Any = cls
    adapter = _adapter_of(kind) if isinstance(kind, type) else TypeAdapter(kind)  # types with metadata have no hash
    try:
        return adapter.validate_python(record), []
    except ValidationError as error:
        return None, _find_problems(error)


@lru_cache(maxsize=64)
def _adapter_of(cls: Any) -> "TypeAdapter[Any]":
    return TypeAdapter(cls)


def takes(block: Any) -> Callable[[Function], Function]:
    """Declare that the `**settings` of a function belong to a block, for readers of configs and signatures."""

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
    """Check the arguments of a function or method by their types.

    RAISES (ValueError): EL060 for invalid values, with all problems.
    """
    checked = validate_call(config={"arbitrary_types_allowed": True})(function)

    @wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        arguments = signature(function).bind(*args, **settings).arguments
        try:
            return checked(**arguments)
        except ValidationError as error:
            block, problems = function.__qualname__.removesuffix(".__init__"), list_problems(_find_problems(error))
            raise ValueError(Errors.EL060.format(block=block, problems=problems)) from None

    return cast(Function, call)


def check_fields(cls: Type[BlockT]) -> Type[BlockT]:
    """Let a dataclass check its fields by their types when it is created, see `check_arguments`."""
    constructor: Any = cls
    constructor.__init__ = check_arguments(constructor.__init__)
    return cls


def _find_problems(error: ValidationError) -> List[Problem]:
    problems: List[Problem] = []
    for entry in error.errors():
        path, kind, raised = tuple(entry["loc"]), entry["type"], entry.get("ctx", {}).get("error")
        if isinstance(raised, SettingsError):
            inner: Sequence[Problem] = raised.args
        elif raised is not None:
            inner = [Problem((), str(raised))]
        else:
            expected = PLAIN_WORDS.get(kind) or entry["msg"].partition(" ")[2]  # without "Input", "String"
            for pydantic, plain in LIMITS.items():
                expected = expected.replace(pydantic, plain)
            inner = [Problem((), expected, is_unknown=kind in UNKNOWN_SETTING)]
        for problem in inner:
            text = problem.text
            if not problem.path and text.startswith("should"):
                text = f"is {shorten(repr(entry['input']), 80)}, {text}"
            problems.append(replace(problem, path=(*path, *problem.path), text=text))
    return problems


def _join_path(path: Sequence[Any]) -> str:
    return _suffix(path).removeprefix(".")


def _suffix(path: Sequence[Any]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)


def _inner_blocks(cls: Any, path: str = "") -> Iterator[Tuple[str, Any]]:
    """YIELDS (Tuple[str, Any]): All blocks below a block, and itself, with their dotted names."""
    yield path, cls
    for item in fields(cls):
        for inner in _types(item.type):
            if isinstance(inner, type) and is_dataclass(inner):
                yield from _inner_blocks(inner, f"{path}.{item.name}".removeprefix("."))


def _types(hint: Any) -> Iterator[Any]:
    yield hint
    for inner in get_args(hint):
        yield from _types(inner)


def _find_block(cls: Any, path: Sequence[Any]) -> Any:
    return dict(_inner_blocks(cls)).get(_join_path(path), cls)
