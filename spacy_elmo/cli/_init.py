"""Commands that write a config: where it is written, and the command to run next with the texts of the user."""

import re
import shlex
import warnings
from pathlib import Path
from typing import Dict, Optional, Sequence, Union

from ..corpora.texts import make_nlp
from ..files import check_output_file, to_path, write_text
from ..weights.load import list_sources
from . import _common
from ._app import Arg, Opt

STDOUT = "-"
COMMAND = re.compile(r"^# (python -m spacy .*)$", flags=re.MULTILINE)  # in the header of a config
# Options of the next commands that name another text beside --data, and words in its name, the most likely first.
SIBLINGS = {"--paths.dev": ("dev", "valid"), "--paths.valid": ("valid", "dev"), "--data": ("test",)}
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")

OUTPUT_ARG = Arg(Path("config.cfg"), help="Config file to write, or - for stdout.", allow_dash=True, dir_okay=False)
TEXT_HELP = "The text that will be trained on: files, a folder or a pattern. The next command names it"


def text_opt(more: str = ".") -> Optional[str]:
    """RETURNS (Optional[str]): The option --text of a config for `elmo pretrain`."""
    option: Optional[str] = Opt(None, "--text", "-t", help=TEXT_HELP + more)
    return option


def lang_opt(default: str) -> Optional[str]:
    """RETURNS (Optional[str]): The option --lang of a config for `elmo pretrain`."""
    more = "With this option raw text is tokenized by spaCy for the language (corpus.lang), without it at white space."
    option: Optional[str] = Opt(None, "--lang", "-l", help=f"Code of the language, by default {default}. {more}")
    return option


def check_config_files(
    paths: Sequence[Path], *sources: Union[str, Path, None], bilm: Optional[str] = None, force: bool
) -> None:
    """Check the names of files and of a biLM, before anything is read.

    paths (Sequence[Path]): Configs to write, - for stdout.
    sources (Union[str, Path, None]): What is read beside the biLM; None for options that are not given.
    RAISES (ValueError): For an empty name of a biLM; see `check_stdout` and `check_output_file`.
    """
    if bilm is not None and not bilm.strip():
        raise ValueError(
            "`bilm` is empty, should be the name of a packaged biLM or a path (is it a variable that is not set?). "
            "Name a biLM, or leave the option out."
        )
    read = [] if bilm is None else list_sources(bilm)
    read += [to_path(source) for source in sources if source is not None]
    for path in paths:
        if is_stdout(path):
            _common.check_stdout()
        else:
            check_output_file(path, force=force, sources=read)


def is_stdout(path: Path) -> bool:
    return str(path) == STDOUT


def quote_path(path: Path) -> str:
    """RETURNS (str): The path of a config in the command of its header."""
    return "config.cfg" if is_stdout(path) else shlex.quote(str(path))


def find_tokenizer(lang: Optional[str]) -> Optional[str]:
    """RETURNS (Optional[str]): The language, None with a warning if spaCy cannot tokenize it."""
    if lang is None:
        return None
    try:
        make_nlp(lang)
    except ValueError as error:
        text = f"corpus.lang is null, so that tokens are separated by white space. {error}"
        warnings.warn(text, stacklevel=2)
        return None
    return lang


def save_configs(kind: str, configs: Dict[Path, str], place: Optional[str], more_commands: Sequence[str] = ()) -> None:
    """Write configs, whose headers have the command to run next, or print the first one, for -; then show the commands.

    kind (str): For the message: "a pipeline".
    place (Optional[str]): The text that will be trained on.
    more_commands (Sequence[str]): Commands after those of the headers.
    """
    if place is not None and not _common.is_stream(place):  # a stream has no name for later
        configs = {
            path: COMMAND.sub(lambda match: _name_texts(match[0], place), text) for path, text in configs.items()
        }
        more_commands = [_name_texts(command, place) for command in more_commands]
    if any(map(is_stdout, configs)):
        print(*configs.values(), end="")
        return
    for path, text in configs.items():
        write_text(path, text)
    _common.msg.good(f"Saved the config of {kind}", " and ".join(map(str, configs)))
    commands = [match[1] for match in map(COMMAND.search, configs.values()) if match]
    _common.print_next("Next, with your data:", [*commands, *more_commands])


def _name_texts(command: str, place: str) -> str:
    """RETURNS (str): The command with the text of --data, and with those beside it for validation and test."""
    siblings = {option: _find_sibling(Path(place), words) for option, words in SIBLINGS.items()}
    for option, path in {"--paths.train": place, **siblings}.items():
        if path is not None:
            before, named, after = command.partition(f"{option} ")
            command = f"{before}{named}{shlex.quote(path)} {after.partition(' ')[2]}".rstrip() if named else command
    return command


def _find_sibling(path: Path, words: Sequence[str]) -> Optional[str]:
    """RETURNS (Optional[str]): The file, folder or pattern whose name has one of the words in the place of "train", or
    the only file of this format whose name has it.
    """
    for word in words:
        likely = path.with_name(path.name.replace("train", word))
        if likely.name != path.name and any(path.parent.glob(likely.name)):
            return str(likely)
        files = [file for file in path.parent.glob("*") if file.is_file() and file.name != path.name]
        named = [file for file in files if re.search(rf"(?<![a-z]){word}", file.name.lower())]
        similar = [file for file in named if path.suffix and _suffix(file) == _suffix(path)]
        if len(similar) == 1:
            return str(similar[0])
    return None


def _suffix(path: Path) -> str:
    return (path.with_suffix("") if path.suffix.lower() in COMPRESSED else path).suffix.lower()
