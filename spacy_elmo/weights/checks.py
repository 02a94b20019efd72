"""Limits on what a file may declare, and the collection of all problems of a file for one error."""

from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, TypeVar

from ..bilm.config import BiLMConfig
from ..errors import Errors

# Maximum sizes that files may declare, checked before anything is allocated.
#
# All of them are far above those of existing biLMs (cell width 4096, projection width 512, 2 to 4 layers, 800,000
# words).

MIB = 1024 * 1024
MAX_JSON_BYTES = 2 * MIB  # options, config and meta data, which have some kB; in memory up to 32 times as much
MAX_JSON_DEPTH = 64
MAX_EXPANSION = 20  # uncompressed weights and words are at most a few times larger than their files

MAX_LAYERS = 1000  # layers of the encoder, highway layers, filter sizes
MAX_WIDTH = 2**20
MAX_CHARACTERS = 1000  # ids per word, of 8 bytes each, for thousands of words at once
MAX_WORDS = 2**31
MAX_CUTOFFS = 100  # clusters of an adaptive softmax

MAX_ABSOLUTE = 1e18  # the product of two such numbers is still finite in float32
MAX_SHOWN = 30  # problems listed in an error
MAX_TEXT = 2000  # characters of a problem in an error


def expanded_limit(n_bytes: int) -> int:
    """n_bytes (int): Size in a file, compressed or not.
    RETURNS (int): Maximum size after decompression.
    """
    return 64 * MIB + MAX_EXPANSION * n_bytes


# Settings by their names in `BiLMConfig`, `CharCNNConfig` and `TransformerConfig`.
MOST: Dict[str, int] = {
    "n_layers": MAX_LAYERS,
    "cell_width": MAX_WIDTH,
    "projection_width": MAX_WIDTH,
    "n_words": MAX_WORDS,
    "embedding_width": MAX_WIDTH,
    "n_highway": MAX_LAYERS,
    "max_characters": MAX_CHARACTERS,
    "n_characters": MAX_WIDTH,
    "character_width": MAX_WIDTH,
    "word_width": MAX_WIDTH,
    "encoder_depth": MAX_LAYERS,
    "feedforward_width": MAX_WIDTH,
    "max_positions": MAX_WIDTH,
}


def find_excess(config: BiLMConfig) -> List[str]:
    """config (BiLMConfig): The config in a file.
    RETURNS (List[str]): A description of each setting above its limit.
    """
    sizes: Dict[str, Optional[int]] = {name: getattr(config, name) for name in MOST if hasattr(config, name)}
    words = config.char_cnn or config.token_embedder
    for block in (words, config.transformer):
        if block is not None:
            sizes.update({name: getattr(block, name) for name in MOST if hasattr(block, name)})
    problems = find_above(sizes, MOST)
    clips = {"cell_clip": config.cell_clip, "projection_clip": config.projection_clip}
    huge = ((name, clip) for name, clip in clips.items() if clip is not None and clip > MAX_ABSOLUTE)
    problems += [f"{name} is {clip}, should be at most {MAX_ABSOLUTE:g}" for name, clip in huge]
    filters = () if words is None else words.filters
    return problems + find_filter_excess([n for _, n in filters], "filters")


def find_above(sizes: Mapping[str, Optional[int]], most: Mapping[str, int]) -> List[str]:
    """RETURNS (List[str]): A description of each size above its limit."""
    above = ((name, n) for name, n in sizes.items() if n is not None and n > most[name])
    return [f"{name} is {shorten(str(n), 40)}, should be at most {most[name]:,}" for name, n in above]


def find_filter_excess(numbers: List[int], name: str) -> List[str]:
    """numbers (List[int]): Filters of each width.
    name (str): Name of the setting in the file.
    RETURNS (List[str]): Problems: too many widths, or too many filters in total.
    """
    problems = []
    if len(numbers) > MAX_LAYERS:
        problems.append(f"{name} has {len(numbers):,} sizes, should have at most {MAX_LAYERS:,}")
    if sum(numbers) > MAX_WIDTH:
        total = shorten(str(sum(numbers)), 40)
        problems.append(f"{name} has {total} filters in all, should have at most {MAX_WIDTH:,}")
    return problems


def shorten(text: str, max_characters: int = MAX_TEXT) -> str:
    """RETURNS (str): The text, truncated with "..." if it is longer."""
    return text if len(text) <= max_characters else text[: max_characters - 3] + "..."


def listed(problems: Iterable[str], max_shown: int = MAX_SHOWN) -> str:
    """RETURNS (str): One problem per line, each after a dash, and the number of problems not shown."""
    found = list(problems)
    shown = [shorten(problem) for problem in found[:max_shown]]
    rest = [f"and {len(found) - max_shown:,} more"] if len(found) > max_shown else []
    return "".join(f"\n- {line}" for line in (*shown, *rest))


def refuse_misfits(problems: Sequence[str], path: object, options: object) -> None:
    """problems (Sequence[str]): From `find_misfits`.
    path (object), options (object): The file of the arrays, and that of the settings.
    RAISES (ValueError): EL026 if there are any.
    """
    if problems:
        settings = {"options": options, "n_problems": len(problems), "problems": listed(problems)}
        raise ValueError(Errors.EL026.format(path=path, **settings))


# Collect the errors of all files of a biLM, to raise them together.

T = TypeVar("T")


class Faults:
    """Errors so far. The caller skips steps that need the result of a failed step."""

    def __init__(self) -> None:
        self.errors: List[ValueError] = []

    def attempt(self, step: Callable[..., T], *args: Any) -> Optional[T]:
        """step (Callable[..., T]): Raises a ValueError if its input is invalid.
        RETURNS (Optional[T]): Its result, or None if it failed.
        """
        try:
            return step(*args)
        except ValueError as error:
            self.errors.append(error)
        return None

    def raise_together(self, path: object) -> None:
        """path (object): Path of the biLM.
        RAISES (ValueError): The only error, or one with all of them; nothing if there is none.
        """
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            problems = "".join(f"\n{number}. {error}" for number, error in enumerate(self.errors, start=1))
            message = (
                f"The biLM '{path}' cannot be loaded, {len(self.errors)} problem(s):{problems}\nCorrect all of them."
            )
            raise ValueError(message) from self.errors[0]


# Settings of a foreign config file, read with their types and ranges; all problems are collected.


class SettingsReader:
    """Reads settings from nested options, and collects missing, mistyped and out-of-range ones as problems.

    options (Mapping[str, Any]): The parsed JSON.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self.problems: List[str] = []

    def has(self, name: str) -> bool:
        """RETURNS (bool): Whether a dotted name has a value other than null."""
        return self._find(name)[1] is not None

    def take(
        self, name: str, kind: Any, default: Any = ..., *, least: Optional[int] = None, most: Optional[float] = None
    ) -> Any:
        """name (str): Dotted name.
        kind (Any): Its type, or several.
        default (Any): For a missing value; without it, a missing value is a problem.
        least (Optional[int]), most (Optional[float]): Its range.
        RETURNS (Any): The value, None if it is invalid.
        """
        found, value = self._find(name)
        if value is None and default is not ...:
            return default
        if not found or value is None:
            self.problems.append(f"{name} is {'null' if found else 'missing'}")
        elif not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.refuse(name, value, _kind_name(kind))
        elif least is not None and not value >= least:  # also refuses NaN
            self.refuse(name, value, f"{least} or more" + (", or null for none" if default is None else ""))
        elif most is not None and value > most:
            self.refuse(name, value, f"at most {most:,}" if most < MAX_ABSOLUTE else f"at most {most:g}")
        else:
            return value
        return None

    def refuse(self, name: str, value: Any, wanted: str) -> None:
        """Add the problem that a setting should have another value."""
        self.problems.append(f"{name} is {shorten(repr(value), 80)}, should be {wanted}")

    def _find(self, name: str) -> Tuple[bool, Any]:
        node: Any = self.options
        for part in name.split("."):
            if not isinstance(node, Mapping) or part not in node:
                return False, None
            node = node[part]
        return True, node


def _kind_name(kind: Any) -> str:
    names = {
        int: "an integer",
        bool: "true or false",
        str: "a string",
        list: "a list",
        (int, float): "a number",
        Mapping: "a block of settings",
    }
    return names.get(kind, str(kind))


def read_filters(reader: SettingsReader, name: str, max_width: Optional[int]) -> Tuple[Tuple[int, int], ...]:
    """name (str): Dotted name of a list of [width, number].
    max_width (Optional[int]): Characters of a word; None if they are not known.
    RETURNS (Tuple[Tuple[int, int], ...]): The filters, empty if they are not valid.
    """
    filters = reader.take(name, list)
    if filters is None:
        return ()
    if not all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 and all(type(n) is int for n in pair) for pair in filters
    ):
        reader.refuse(name, filters, "a list of [width, number]")
        return ()
    if not filters:
        reader.problems.append(f"{name} is empty, should name at least one [width, number]")
    reader.problems += find_filter_excess([number for _, number in filters], name)
    for width, number in filters:
        if number < 1:
            reader.problems.append(f"{name} has [{width}, {number}], should have 1 filter or more")
        if max_width is not None and not 1 <= width <= max_width:
            reader.problems.append(f"{name} has [{width}, {number}], should be 1 to {max_width} characters wide")
    return tuple((width, number) for width, number in filters)
