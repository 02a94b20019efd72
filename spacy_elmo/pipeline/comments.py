"""Comments of configs: above each setting the comment that it has in a packaged config, which explains every one."""

from functools import lru_cache, reduce
from operator import getitem
from pathlib import Path
from textwrap import wrap
from typing import Any, Dict, Iterator, List, Mapping, Set, Tuple

from thinc.api import Config

from ..files import find_configs

# The config whose comments fit any pipeline, and blocks that no pipeline here has.
FIRST, LAST = "elmo_textcat.cfg", "blocks.cfg"
NO_PIPELINES = ("pretrain_", "adapt")  # configs of `elmo pretrain`
MAX_COLUMNS = 120
Setting = Tuple[str, str]  # what declares it, see `_owner_of`, and its name


def write_config(config: Config) -> str:
    """RETURNS (str): The config with a comment above each setting, in the first block of each kind."""
    comments = read_comments()
    described: Set[str] = set()
    lines: List[str] = []
    owner, is_new = "", False
    for path, key, line in _iter_lines(config.to_str(interpolate=False)):
        if line.startswith("["):
            owner = _owner_of(path, config)
            is_new = owner not in described
            described.add(owner)
        comment = comments.get((owner, key), "") if is_new else ""
        lines += [*wrap(comment, MAX_COLUMNS, initial_indent="# ", subsequent_indent="# "), line]
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=1)
def read_comments() -> Mapping[Setting, str]:
    """RETURNS (Mapping[Setting, str]): The comment of each setting in the packaged configs."""
    comments: Dict[Setting, str] = {}
    paths = [path for path in find_configs().glob("*.cfg") if not path.name.startswith(NO_PIPELINES)]
    for path in sorted(paths, key=lambda path: (path.name != FIRST, path.name == LAST, path.name)):
        for setting, comment in _read_file(path):
            comments.setdefault(setting, comment)
    return comments


def _read_file(path: Path) -> Iterator[Tuple[Setting, str]]:
    text = path.read_text(encoding="utf8")
    config, comment = Config().from_str(text, interpolate=False), ""
    for block, key, line in _iter_lines(text):
        if line.startswith("# "):
            comment = f"{comment} {line[2:]}".strip()
            continue
        if key and comment:
            yield (_owner_of(block, config), key), comment
        comment = ""


def _iter_lines(text: str) -> Iterator[Tuple[str, str, str]]:
    """YIELDS (Tuple[str, str, str]): The dotted name of the block of a line, the name of its setting, "" if it has
    none, and the line.
    """
    path = ""
    for line in text.splitlines():
        path = line.strip("[]") if line.startswith("[") else path
        name, mark, _ = line.partition(" = ")
        yield path, name if mark and not line.startswith(("#", "[")) else "", line


def _owner_of(path: str, config: Config) -> str:
    """RETURNS (str): What declares the settings of a block: a registered function, a factory, or else its name."""
    block: Dict[str, Any] = reduce(getitem, path.split("."), config)
    names = [str(value) for key, value in block.items() if key.startswith("@")]
    return next(iter(names), str(block.get("factory", path)))
