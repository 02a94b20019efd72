"""What several commands share: saying what went wrong, and opening weights with the files that go with them."""

import sys
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, Iterator, Optional

import torch
import typer
from wasabi import Printer

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

# One declaration for each argument that several commands have.
BILM_ARG = Arg(..., help="Folder, file or zip with biLM weights in any known format, or the name of a packaged biLM.")
OPTIONS_OPT = Opt(None, "--options", "-o", help="The options.json of the weights, if it does not lie beside them.")
VOCAB_OPT = Opt(None, "--vocab", "-v", help="Text file with one word per line, in the order of the softmax rows.")
SOFTMAX_OPT = Opt(None, "--softmax", "-s", help="HDF5 file with the softmax, if it is not with the weights.")
TOKEN_EMBEDDINGS_OPT = Opt(None, "--token-embeddings", "-t", help="HDF5 file with a vector per word of the vocabulary.")
GPU_OPT = Opt(-1, "--gpu-id", "-g", help="Number of the GPU to compute on, -1 for the CPU.")
FORCE_OPT = Opt(False, "--force", "-F", help="Replace the output if it exists already.")
JSON_OPT = Opt(False, "--json", "-j", help="Print one JSON object in place of tables.")


@contextmanager
def show_errors() -> Iterator[None]:
    """Turn errors that a user can do something about into a message and exit code 1."""
    try:
        yield
    except (ValueError, OSError) as error:
        title, _, text = str(error).partition("\n")
        msg.fail(title, text)
        raise typer.Exit(1) from error


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
