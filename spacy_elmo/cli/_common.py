"""What several commands share: saying what went wrong, checking outputs, and opening weights with their files."""

import errno
import sys
import warnings
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Optional, Sequence, Type

import torch
import typer
from wasabi import Printer

from ..corpora.files import Tell
from ..corpora.punctuation import PunctuationCheck
from ..encoding.facade import BiLM
from ..errors import Errors
from ..weights import load_bilm
from ._app import Arg, Opt


class Speaker(Printer):
    """Statements (good, info, warn, fail) go to stderr, so that stdout holds results and nothing else."""

    def text(self, *args: Any, **settings: Any) -> Any:
        """Print a text; what has an icon is a statement."""
        if settings.get("icon") is None:
            return super().text(*args, **settings)
        with redirect_stdout(sys.stderr):
            return super().text(*args, **settings)


msg = Speaker()

# What to do about errors of the system.
REMEDIES: Dict[Optional[int], str] = {
    errno.ENOSPC: "Make room on the disk, and start again.",
    errno.EDQUOT: "Make room on the disk, and start again.",
    errno.ENOENT: "Check the path.",
    errno.ENOTDIR: "A folder in this path is a file: choose another path.",
    errno.EEXIST: "A folder in this path is a file: choose another path.",
    errno.EISDIR: "It is a folder: name a file.",
    errno.EACCES: "Change its permissions, or choose another path.",
    errno.EPERM: "Change its permissions, or choose another path.",
    errno.EROFS: "Choose a path on a disk that can be written.",
}

# One declaration for each argument that several commands have.
BILM_ARG = Arg(..., help="Folder, file or zip with biLM weights in any known format, or the name of a packaged biLM.")
OPTIONS_OPT = Opt(None, "--options", "-o", help="The options.json of the weights, if it does not lie beside them.")
VOCAB_OPT = Opt(None, "--vocab", "-v", help="Text file with one word per line, in the order of the softmax rows.")
SOFTMAX_OPT = Opt(None, "--softmax", "-s", help="HDF5 file with the softmax, if it is not with the weights.")
TOKEN_EMBEDDINGS_OPT = Opt(None, "--token-embeddings", "-t", help="HDF5 file with a vector per word of the vocabulary.")
GPU_OPT = Opt(-1, "--gpu-id", "-g", help="Number of the GPU to compute on, -1 for the CPU.")
LANG_HELP = (
    "Language of raw text, whose tokenizer reads it, for instance en; by default white space of any kind separates the "
    "tokens, no-break spaces too."
)
LANG_OPT = Opt(None, "--lang", "-l", help=LANG_HELP)
RUNNING_TEXT_OPT = Opt(False, "--running-text", "-r", help="A line has several sentences, cut it after each.")
FORCE_OPT = Opt(False, "--force", "-F", help="Replace the output if it exists already.")
JSON_OPT = Opt(False, "--json", "-j", help="Print one JSON object in place of tables.")


@contextmanager
def show_errors() -> Iterator[None]:
    """Turn errors that a user can do something about into a message and exit code 1, and warnings into messages."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = partial(_show_warning, warnings.showwarning)
            yield
    except (ValueError, OSError) as error:
        told = _describe_system_error(error) if isinstance(error, OSError) else str(error)
        title, _, text = told.strip().partition("\n")
        msg.fail(title, text)
        raise typer.Exit(1) from error


def _show_warning(otherwise: Callable[..., None], message: Any, category: Type[Warning], *place: Any) -> None:
    """Where in the code it was is of use for developers, to whom other kinds of warnings go."""
    if category is UserWarning:
        msg.warn(str(message))
    else:
        otherwise(message, category, *place)


def _describe_system_error(error: OSError) -> str:
    if error.errno is None:  # of a library, with a text of its own
        return str(error)
    path = f"'{error.filename2 or error.filename}'" if error.filename else "a file that was being read or written"
    remedy = REMEDIES.get(error.errno, "Check the path and the disk.")
    return Errors.EL177.format(path=path, reason=error.strerror, remedy=remedy)


def warn_of_raw_text(check: PunctuationCheck, places: Sequence[object], lang: Optional[str], warn: Tell) -> None:
    """check (PunctuationCheck): Has seen the first tokens.
    places (Sequence[object]): Where the text comes from.
    lang (Optional[str]): Whose tokenizer made them; with one nothing is wrong.
    warn (Tell): Is told if they look like words of raw text.
    """
    warning = check.warning(places)
    if warning is not None and lang is None:
        warn(warning)


def check_output_folder(path: Path) -> None:
    """path (Path): A folder that is there, or can be made.
    RAISES (ValueError): EL178 if it, or a folder that it should be in, is something else.
    """
    there = next((part for part in (path, *path.parents) if part.exists()), path)
    if there.exists() and not there.is_dir():
        raise ValueError(Errors.EL178.format(path=path, taken=there))


def check_output_file(path: Path, *, force: bool) -> None:
    """path (Path): A file that will be written and renamed.
    force (bool): It may replace a file.
    RAISES (ValueError): EL134 for a file that is there, EL178 if its folder can be none, EL179 for what is no file: a
        device or a pipe would be gone.
    """
    if path.exists() and not path.is_file():
        raise ValueError(Errors.EL179.format(path=path))
    if path.exists() and not force:
        raise ValueError(Errors.EL134.format(path=path, remedy="Choose another path, or replace it with --force."))
    check_output_folder(path.parent)


def open_bilm(
    path: str,
    *,
    options: Optional[Path] = None,
    vocab: Optional[Path] = None,
    softmax: Optional[Path] = None,
    token_embeddings: Optional[Path] = None,
    gpu_id: int = -1,
) -> BiLM:
    """Load a biLM as the arguments of a command name it.

    path (str): What `load_bilm` takes; only the weights file if `options` are given.
    gpu_id (int): Number of a GPU, -1 for the CPU.
    RETURNS (BiLM): The model, on its device.
    """
    if options is None:
        bilm = load_bilm(path, vocab=vocab, softmax=softmax, token_embeddings=token_embeddings)
    else:
        bilm = load_bilm(
            options=options, weights=path, vocab=vocab, softmax=softmax, token_embeddings=token_embeddings
        )
    return bilm.to(device_of(gpu_id))


def device_of(gpu_id: int) -> str:
    """gpu_id (int): Number of a GPU, -1 for the CPU.
    RETURNS (str): The name of the device in torch.
    RAISES (ValueError): EL136 if there is no such GPU.
    """
    if gpu_id < 0:
        return "cpu"
    if gpu_id >= torch.cuda.device_count():
        raise ValueError(Errors.EL136.format(gpu_id=gpu_id, n=torch.cuda.device_count()))
    return f"cuda:{gpu_id}"
