"""Shared by commands: arguments, error messages, checks of output paths, loading of weights, reading of a text."""

import errno
import os
import re
import signal
import sys
import threading
import warnings
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Callable, Dict, Iterable, Iterator, List, Literal, Optional, Sequence, Type, Union

import torch
import typer
from spacy.util import import_file
from wasabi import Printer

from ..analysis.plots import DPI, Look, check_picture
from ..corpora.sources import STDIN, make_source
from ..errors import Errors
from ..files import AnyPath, check_output_file
from ..inference.bilm import BiLM
from ..text.words import BYTE_ORDER_MARK
from ..weights import load_bilm
from ._app import OPTIONS, Arg, Opt


class Speaker(Printer):
    """Prints messages (good, info, warn, fail) to stderr, so that stdout contains only results."""

    def text(self, title: Any = "", *args: Any, **settings: Any) -> Any:
        """Print a text; texts with an icon are messages, whose parameters become options."""
        if settings.get("icon") is None:
            return super().text(title, *args, **settings)
        with redirect_stdout(sys.stderr):
            return super().text(to_options(str(title)), *args, **settings)


msg = Speaker()

# Remedies for errors of the operating system, by errno.
REMEDIES: Dict[Optional[int], str] = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "Free disk space, then run the command again."),
    errno.ENOENT: "Check the path.",
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "Part of this path is a file, not a folder: choose another path."),
    errno.EISDIR: "It is a folder: give the path of a file.",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "Change its permissions, or choose another path."),
    errno.EROFS: "Choose a path on a writable disk.",
}

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STDERR = 2
MIN_CM, MAX_CM = 3, 200  # of a side of a picture

# A parameter of a function in a message of the package: `lang`, `force=True`, `store="layers"`.
PARAMETER = re.compile(r"`([a-z_]+)(?:=([^`]+))?`")

# Errors of spaCy on a factory, a language or a function that no imported code registers.
UNREGISTERED = ("[E002]", "[E048]", "[E893]")

# Arguments and options of several commands.
BILM_ARG = Arg(..., help="Folder, file or zip with biLM weights in any known format, or the name of a packaged biLM.")
OPTIONS_OPT = Opt(
    None, "--options", "-o", help="The options.json of the weights, if it is not in the folder of the weights."
)
VOCAB_OPT = Opt(None, "--vocab", "-v", help="Text file with one word per line, in the order of the softmax rows.")
SOFTMAX_OPT = Opt(None, "--softmax", "-s", help="HDF5 file with the softmax, if it is not in the weights file.")
TOKEN_EMBEDDINGS_OPT = Opt(
    None, "--token-embeddings", "-t", help="HDF5 file with a vector for each word of the vocabulary."
)
GPU_OPT = Opt(-1, "--gpu-id", "-g", help="Number of the GPU to compute on, -1 for the CPU.")
LANG_HELP = (
    "Tokenize raw text with spaCy's tokenizer for this language, for instance en. By default tokens are separated by "
    "any Unicode white space, including no-break spaces."
)
LANG_OPT = Opt(None, "--lang", "-l", help=LANG_HELP)
# Of commands that read a corpus.
CORPUS_HELP = (
    "Text, JSONL or DocBin, plain or compressed (.gz, .bz2, .xz, .zst): files, folders, pipes, patterns such as "
    "'corpus/**/*.gz', hf:NAME[:SPLIT][:COLUMN], or - for stdin."
)
CORPUS_LANG_OPT = Opt(
    None,
    "--lang",
    "-l",
    help="Tokenize raw text with spaCy's tokenizer for this language, for instance en; with none, tokens are separated by any Unicode white space, including no-break spaces. By default the language of the biLM if more than 5 % of the tokens end in punctuation, otherwise none.",
)
# Of commands that read one text.
TEXT_ARG = Arg(..., help="The text, in quotation marks; - reads it from stdin.")
TEXT_LANG_OPT = Opt(
    None,
    "--lang",
    "-l",
    help="Language of spaCy's tokenizer and sentence splitter. Defaults to the language of the biLM, or en.",
)
CorpusFormat = Literal["auto", "text", "jsonl", "docbin", "parquet"]
FORMAT_OPT = Opt(
    "auto", "--format", "-f", help="Format of the files; auto infers it from the first bytes, then the suffix."
)
RUNNING_TEXT_OPT = Opt(False, "--running-text", "-r", help="Split each line into sentences.")
FORCE_OPT = Opt(False, "--force", "-F", help="Replace the output if it exists already.")
# Of commands that draw.
TITLE_OPT = Opt(None, "--title", help="Title of the picture and of the page, instead of the default; '' for none.")
SIZE_OPT = Opt(None, "--size", help="Width of the picture in cm, or its width and height: 16 or 16x9.")
DPI_OPT = Opt(None, "--dpi", help=f"Dots per inch of a .png file; {DPI} by default.", min=10, max=2400)
LABEL_OPT = Opt(
    [],
    "--label",
    help="Another text for a label of the picture, for instance in another language: 'group 1=Ufer'. Repeat for several.",
)
JSON_OPT = Opt(False, "--json", "-j", help="Print one JSON object instead of tables.")
CODE_OPT = Opt(
    None,
    "--code",
    "-c",
    help="Python file to import first, with your components, architectures and other registered functions.",
    exists=True,
    dir_okay=False,
)


@contextmanager
def show_errors(code: int = 1) -> Iterator[None]:
    """Show errors of the user (ValueError, OSError) as a message with an exit code, and warnings as messages. SIGTERM
    ends the command after it has removed its temporary files.
    """
    try:
        with warnings.catch_warnings(), _exit_on_sigterm():
            warnings.showwarning = partial(_show_warning, warnings.showwarning)
            yield
    except BrokenPipeError:  # of stdout: whoever reads the output has enough
        raise
    except (ValueError, OSError, ImportError, MemoryError) as error:
        described = _describe_system_error(error) if isinstance(error, OSError) else str(error)
        if described.startswith(UNREGISTERED):
            described = f"{described.split('. ')[0]}. Import the Python file that registers it with --code, or install its package."
        elif isinstance(error, ImportError):
            raise
        title, _, text = described.strip().partition("\n")
        msg.fail(title)
        if text:
            print(to_options(text), file=sys.stderr)  # not by the printer, which would merge the lines of a list
        raise typer.Exit(code) from error


def to_options(text: str) -> str:
    """RETURNS (str): A message of the package, which names parameters of functions, for the running command: `lang` is
    --lang, `force=True` is --force, `store="layers"` is --store layers. The parameter of the command's function has the
    name of the parameter, or NAME_path; names that it does not have stay as they are.
    """
    options = OPTIONS.get({})

    def translate(match: "re.Match[str]") -> str:
        name, value = match.groups()
        if name not in options:
            return match[0]
        shown_value = "" if value in (None, "True", "...") else " " + value.strip("\"'[]")
        return f"{options[name]}{shown_value}"

    return PARAMETER.sub(translate, text)


def check_stdout() -> None:
    """RAISES (ValueError): If the process has no stdout, to which a result is to be written."""
    if sys.stdout is None:
        raise ValueError(
            "There is no standard output to write to: it is closed. Give the path of a file in place of -."
        )


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    def leave(signal_number: int, frame: Optional[FrameType]) -> None:
        raise SystemExit(128 + signal_number)

    with _handle_signals([signal.SIGTERM], leave):
        yield


@contextmanager
def _handle_signals(signals: Sequence[int], handler: Callable[[int, Optional[FrameType]], None]) -> Iterator[None]:
    """Replace the handlers of signals in the main thread, the only one in which Python allows handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signal_number: signal.signal(signal_number, handler) for signal_number in signals}
    try:
        yield
    finally:
        for signal_number, previous in before.items():
            signal.signal(signal_number, signal.SIG_DFL if previous is None else previous)  # None: not set by Python


def _show_warning(otherwise: Callable[..., None], message: Any, category: Type[Warning], *place: Any) -> None:
    """Print a UserWarning as a message, without its location in the code; show other warnings as Python does."""
    if category is UserWarning:
        msg.warn(str(message))
    else:
        otherwise(message, category, *place)


def _describe_system_error(error: OSError) -> str:
    if error.errno is None:  # raised by a library, with its own message
        return str(error)
    path = f"'{error.filename2 or error.filename}'" if error.filename else "a file"
    remedy = REMEDIES.get(error.errno, "Check the path and the disk.")
    what = "write" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS) else "open"
    return Errors.EL177.format(path=path, what=what, reason=error.strerror, remedy=remedy)


def print_next(text: str, commands: Sequence[str]) -> None:
    """Print commands to run next, each in one line that can be copied: the printer would break it."""
    msg.info(text)
    print("\n".join(commands), file=sys.stderr)


@contextmanager
def stop_on_signals(stop: Callable[[], None], notice: bytes) -> Iterator[None]:
    """Call a function on SIGINT or SIGTERM instead of the default handler. A second SIGINT raises KeyboardInterrupt;
    further SIGTERM have no effect, since `torchrun` sends one after a SIGINT.

    stop (Callable[[], None]): Requests the stop and returns at once.
    notice (bytes): Written to stderr.
    """

    def handle(signal_number: int, frame: Optional[FrameType]) -> None:
        stop()
        if signal_number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        os.write(STDERR, notice)  # print is not reentrant

    with _handle_signals(SIGNALS, handle):
        yield


def import_code(path: Optional[Path]) -> None:
    """Run the file of --code. RAISES (ValueError): If it raises an error."""
    if path is None:
        return
    if path.suffix != ".py":
        raise ValueError(f"The code '{path}' is not a Python file: its suffix should be .py. Give another file.")
    try:
        import_file("python_code", path)
    except Exception as error:
        raise ValueError(
            f"The code '{path}' cannot be imported: {type(error).__name__}: {error}. Correct the file, or install what "
            "it imports."
        ) from error


def print_written(*paths: Optional[Path]) -> None:
    """Print the paths of the files that were written; None for outputs that were not requested."""
    for path in filter(None, paths):
        msg.good(f"Wrote {path}")


def counted(n: int, noun: str) -> str:
    """RETURNS (str): The number with its noun: "1 text", "1,000 texts"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def check_output_files(*, force: bool, sources: Iterable[AnyPath] = (), **paths: Optional[Path]) -> None:
    """paths (Optional[Path]): By option; None for outputs that are not written.
    RAISES (ValueError): If two of them are the same file; see `check_output_file`, also for `sources`.
    """
    sources = list(sources)
    options: Dict[str, str] = {}
    for name, path in paths.items():
        if path is None:
            continue
        check_output_file(path, force=force, sources=sources)
        other = options.setdefault(os.path.normcase(path.resolve()), name)
        if other != name:
            raise ValueError(
                f"--{other} and --{name} would write the same file '{path}'. Choose another path for one of them."
            )


def make_look(
    picture: Optional[Path], title: Optional[str], size: Optional[str], dpi: Optional[int], labels: List[str]
) -> Look:
    """RETURNS (Look): The look of a picture, from options as the user gives them.
    RAISES (ValueError): For settings without a picture, or that cannot be read; see `check_picture`.
    """
    match = re.fullmatch(r"(\d+\.?\d*)(?:x(\d+\.?\d*))?", size or "0")
    width, height = (float(side or 0) for side in (match.groups() if match else ("1", "")))
    named = {name: text for name, _, text in (label.partition("=") for label in labels)}
    problem = ""
    if picture is None:
        options = {"--size": size, "--dpi": dpi, "--label": labels}
        if needless := next((name for name, value in options.items() if value), None):
            problem = f"{needless} is for a picture, but no picture is drawn. Name its file with --picture."
    elif any(side and not MIN_CM <= side <= MAX_CM for side in (width, height)):
        problem = (
            f"--size is '{size}', should be the width of the picture in cm, or width and height, each from {MIN_CM} to "
            f"{MAX_CM}: 16 or 16x9."
        )
    elif wrong := [label for label in labels if not label.partition("=")[0] or "=" not in label]:
        problem = f"--label is '{wrong[0]}', should be NAME=TEXT, for instance 'group 1=Ufer'."
    if problem:
        raise ValueError(problem)
    if picture is not None:
        check_picture(picture)
    return Look(title, width or None, height or None, dpi or DPI, named)


def open_bilm(
    path: str,
    *,
    options: Optional[Path] = None,
    vocab: Optional[Path] = None,
    softmax: Optional[Path] = None,
    token_embeddings: Optional[Path] = None,
    gpu_id: int = -1,
) -> BiLM:
    """RETURNS (BiLM): Loaded from the arguments of a command, on its device; see `load_bilm`."""
    if options is None:
        bilm = load_bilm(path, vocab=vocab, softmax=softmax, token_embeddings=token_embeddings)
    else:
        bilm = load_bilm(options=options, weights=path, vocab=vocab, softmax=softmax, token_embeddings=token_embeddings)
    return bilm.to(device_of(gpu_id))


def device_of(gpu_id: int) -> str:
    """RETURNS (str): The PyTorch name of a GPU, or of the CPU for -1. RAISES (ValueError): If there is no such GPU."""
    if gpu_id < 0:
        return "cpu"
    if gpu_id >= torch.cuda.device_count():
        raise ValueError(
            f"There is no GPU number {gpu_id}: PyTorch finds {torch.cuda.device_count()}. Choose another with --gpu-id, "
            "or -1 for the CPU."
        )
    return f"cuda:{gpu_id}"


def read_text(text: str) -> str:
    """RETURNS (str): A text, or for - the text of stdin, which is UTF-8 whatever the encoding of the console.
    RAISES (ValueError): If it is empty; see `to_unicode`.
    """
    content = to_unicode(_read_stdin() if text == STDIN else text)
    if Path(text).suffix and os.path.isfile(text):
        msg.warn(f"The text is '{content}', the name of a file. To read its content: - < {content}")
    if not content.strip():
        raise ValueError("The text is empty. Give a text in quotation marks, or - and a text on stdin.")
    return content


def is_stream(place: str) -> bool:
    """RETURNS (bool): Whether a text is a pipe, a device or stdin, which has no name for later."""
    is_readable = place == STDIN or (os.path.exists(place) and not os.path.isdir(place))
    return is_readable and make_source(place).stream is not None


def _read_stdin() -> bytes:
    with make_source(STDIN).open_as_text() as content:
        return content.read()


def to_unicode(text: Union[bytes, str]) -> str:
    """text (Union[bytes, str]): UTF-8, or an argument in which Python has escaped bytes (in an ASCII locale).
    RETURNS (str): The text without escapes, and without a byte order mark.
    RAISES (ValueError): If it is not UTF-8.
    """
    try:
        content = text.encode("utf8", "surrogateescape") if isinstance(text, str) else text
        return content.decode("utf8").removeprefix(BYTE_ORDER_MARK)
    except UnicodeError as error:
        raise ValueError(f"The text is not valid UTF-8: {error}. Convert it to UTF-8.") from error
