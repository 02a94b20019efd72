"""Functions of several commands: error messages, checks of output paths, and loading of weights."""

import errno
import os
import signal
import sys
import threading
import warnings
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Callable, Dict, Iterator, Literal, Optional, Type

import torch
import typer
from wasabi import Printer

from ..errors import Errors
from ..inference.bilm import BiLM
from ..weights import load_bilm
from ._app import Arg, Opt


class Speaker(Printer):
    """Prints messages (good, info, warn, fail) to stderr, so that stdout contains only results."""

    def text(self, *args: Any, **settings: Any) -> Any:
        """Print a text; texts with an icon are messages."""
        if settings.get("icon") is None:
            return super().text(*args, **settings)
        with redirect_stdout(sys.stderr):
            return super().text(*args, **settings)


msg = Speaker()

# Remedies for errors of the operating system, by errno.
REMEDIES: Dict[Optional[int], str] = {
    errno.ENOSPC: "Free disk space, then run the command again.",
    errno.EDQUOT: "Free disk space, then run the command again.",
    errno.ENOENT: "Check the path.",
    errno.ENOTDIR: "Part of this path is a file, not a folder: choose another path.",
    errno.EEXIST: "Part of this path is a file, not a folder: choose another path.",
    errno.EISDIR: "It is a folder: give the path of a file.",
    errno.EACCES: "Change its permissions, or choose another path.",
    errno.EPERM: "Change its permissions, or choose another path.",
    errno.EROFS: "Choose a path on a writable disk.",
}

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STDERR = 2

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
CorpusFormat = Literal["auto", "text", "jsonl", "docbin"]
FORMAT_OPT = Opt("auto", "--format", "-f", help="Format of the files, by default what their suffix says.")
RUNNING_TEXT_OPT = Opt(False, "--running-text", "-r", help="Split each line into sentences.")
FORCE_OPT = Opt(False, "--force", "-F", help="Replace the output if it exists already.")
JSON_OPT = Opt(False, "--json", "-j", help="Print one JSON object instead of tables.")


@contextmanager
def show_errors(code: int = 1) -> Iterator[None]:
    """Show errors of the user (ValueError, OSError) as a message with an exit code, and warnings as messages."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, warnings.showwarning)
            yield
    except (ValueError, OSError) as error:
        described = _describe_system_error(error) if isinstance(error, OSError) else str(error)
        title, _, text = described.strip().partition("\n")
        msg.fail(title)
        if text:
            print(text, file=sys.stderr)  # not by the printer, which would merge the lines of a list
        raise typer.Exit(code) from error


def _show_warning(otherwise: Callable[..., None], message: Any, category: Type[Warning], *place: Any) -> None:
    """Print a UserWarning as a message, without its location in the code; show others as Python does."""
    if category is UserWarning:
        msg.warn(str(message))
    else:
        otherwise(message, category, *place)


def _describe_system_error(error: OSError) -> str:
    if error.errno is None:  # raised by a library, with its own message
        return str(error)
    path = f"'{error.filename2 or error.filename}'" if error.filename else "a file"
    remedy = REMEDIES.get(error.errno, "Check the path and the disk.")
    return Errors.EL177.format(path=path, reason=error.strerror, remedy=remedy)


@contextmanager
def stop_on_signals(stop: Callable[[], None], notice: bytes) -> Iterator[None]:
    """Call a function on SIGINT or SIGTERM instead of the default handler. A second SIGINT raises KeyboardInterrupt;
    further SIGTERM have no effect, since `torchrun` sends one after a SIGINT.

    stop (Callable[[], None]): Requests the stop and returns at once.
    notice (bytes): Written to stderr.
    """
    if threading.current_thread() is not threading.main_thread():  # the only thread in which Python allows handlers
        yield
        return

    def ask(number: int, frame: Optional[FrameType]) -> None:
        stop()
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        os.write(STDERR, notice)  # print is not reentrant

    before = {number: signal.signal(number, ask) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def counted(n: int, noun: str) -> str:
    """RETURNS (str): The number with its noun: "1 text", "1,000 texts"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def check_output_folder(path: Path) -> None:
    """path (Path): A folder that exists or can be created.
    RAISES (ValueError): EL178 if it or one of its parents is a file.
    """
    there = next((part for part in (path, *path.parents) if part.exists()), path)
    if there.exists() and not there.is_dir():
        raise ValueError(Errors.EL178.format(path=path, taken=there))


def check_output_file(path: Path, *, force: bool) -> None:
    """path (Path): A file that will be written under a temporary name, then renamed.
    force (bool): Replace an existing file.
    RAISES (ValueError): EL134 if the file exists, EL178 if its parent cannot be a folder, EL179 for anything but a
        regular file, since renaming would replace a device or a pipe.
    """
    if path.exists() and not path.is_file():
        raise ValueError(Errors.EL179.format(path=path))
    if path.exists() and not force:
        raise ValueError(Errors.EL134.format(path=path, remedy="Choose another path, or replace it with --force."))
    check_output_folder(path.parent)


def check_output_files(*, force: bool, **paths: Optional[Path]) -> None:
    """force (bool): Replace existing files.
    paths (Optional[Path]): By option, see `check_output_file`; None for outputs that are not wanted.
    RAISES (ValueError): EL405 if two of them are the same file; see `check_output_file`.
    """
    options: Dict[str, str] = {}
    for name, path in paths.items():
        if path is None:
            continue
        check_output_file(path, force=force)
        other = options.setdefault(os.path.normcase(path.resolve()), name)
        if other != name:
            raise ValueError(Errors.EL405.format(path=path, first=other, second=name))


def open_bilm(
    path: str,
    *,
    options: Optional[Path] = None,
    vocab: Optional[Path] = None,
    softmax: Optional[Path] = None,
    token_embeddings: Optional[Path] = None,
    gpu_id: int = -1,
) -> BiLM:
    """Load a biLM from the arguments of a command.

    path (str): See `load_bilm`; the weights file if `options` is given.
    gpu_id (int): GPU ID, -1 for the CPU.
    RETURNS (BiLM): The model, on its device.
    """
    if options is None:
        bilm = load_bilm(path, vocab=vocab, softmax=softmax, token_embeddings=token_embeddings)
    else:
        bilm = load_bilm(options=options, weights=path, vocab=vocab, softmax=softmax, token_embeddings=token_embeddings)
    return bilm.to(device_of(gpu_id))


def device_of(gpu_id: int) -> str:
    """gpu_id (int): GPU ID, -1 for the CPU.
    RETURNS (str): The PyTorch name of the device.
    RAISES (ValueError): EL136 if there is no such GPU.
    """
    if gpu_id < 0:
        return "cpu"
    if gpu_id >= torch.cuda.device_count():
        raise ValueError(Errors.EL136.format(gpu_id=gpu_id, n=torch.cuda.device_count()))
    return f"cuda:{gpu_id}"
