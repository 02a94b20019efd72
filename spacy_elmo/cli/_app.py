"""The typer app of `elmo`. A command's module is imported when the command is called, not before."""

import errno
import os
import re
import sys
from contextlib import suppress
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Dict, List

import typer
from typer.core import TyperGroup
from typer.main import get_command

Arg = typer.Argument
Opt = typer.Option

# Name and one line of help for each command, by what it is for. Its module here has the same name, - becomes _.
GROUPS: Dict[str, Dict[str, str]] = {
    "Weights": {
        "inspect": "Show the sizes and the contents of biLM weights, and any problems with them.",
        "compare": "Test whether two biLMs give the same vectors, and show where they differ.",
        "download": "Download a published biLM, or list the published biLMs.",
        "convert": "Write biLM weights in another format.",
        "package": "Build a spaCy pipeline package from biLM weights.",
    },
    "Vectors": {
        "embed": "Compute contextual vectors for texts and save them.",
    },
    "Training a biLM": {
        "init-pretraining": "Write a starter config for the pretraining of a biLM.",
        "init-adaptation": "Write a starter config that continues the training of a biLM on other text.",
        "vocab": "Count the words of a text and write the vocabulary of a biLM.",
        "pretrain": "Train a biLM on text.",
        "perplexity": "Report how well a biLM predicts a text, per direction, with standard error.",
    },
    "Analysis of a biLM": {
        "explore": "Explore a biLM in the browser, on this computer only.",
        "surprisal": "Show how unexpected each token of a text is to a biLM.",
        "substitutes": "Show the words that a biLM expects in the place of a word.",
        "index": "Store the contextual vectors of a corpus, to search them for neighbors.",
        "neighbors": "Show the uses of words that are most similar to a word in its sentence.",
        "senses": "Group the uses of a word in an index by their vectors.",
        "probe": "Score how well a label can be read off each layer: linear probes, nearest neighbors, control tasks.",
    },
    "Pipelines": {
        "init-config": "Write a starter config for a spaCy pipeline that uses ELMo.",
        "layer-weights": "Show how each component of a pipeline weighs the layers of the biLM.",
        "report": "Write a page on a training: scores with and without ELMo, errors, layer weights, settings.",
    },
}
# A path in the home folder, as an argument or as the value of an option; a text has spaces.
HOME_PATH = re.compile(r"(--[\w-]+=)?(~[/\\]\S*)")
# Errors of a stdout that is a closed pipe, or a file on a full or broken disk.
OUTPUT_PROBLEMS = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO)
# Options of the running command by the names of its parameters, see `to_options`.
OPTIONS: ContextVar[Dict[str, str]] = ContextVar("OPTIONS")
COMMANDS: Dict[str, str] = {name: help for group in GROUPS.values() for name, help in group.items()}


class LazyGroup(TyperGroup):
    """Imports a command only when it is called, so that import time and errors do not affect `python -m spacy`."""

    def list_commands(self, ctx: Any) -> List[str]:
        """RETURNS (List[str]): All names, without importing the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """RETURNS (Optional[Command]): The command, with its module imported; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        import_module(f"{__package__}.{cmd_name.replace('-', '_')}")
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.registered_commands = [info for info in app.registered_commands if info.name == cmd_name]
        return get_command(single)

    def invoke(self, ctx: Any) -> Any:
        """Run a command. If its output cannot be written, it ends with one line, and quietly if a pipe was closed."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()  # else Python does it at its end, with a traceback
        except OSError as error:
            if error.filename is not None or error.errno not in OUTPUT_PROBLEMS:
                raise
            _discard_output()
            if error.errno != errno.EPIPE:
                reason = f"{error.strerror}. Free disk space, or write to another place"
                with suppress(OSError):  # if it is stderr that is full
                    typer.echo(f"The output cannot be written to stdout or stderr: {reason}.", err=True)
            raise typer.Exit(2 if ctx.invoked_subcommand == "compare" else 1) from None  # 1: its biLMs differ

    def resolve_command(self, ctx: Any, args: List[str]) -> Any:
        """Let `~` at the start of a path be the home folder, also where no shell has replaced it, as in
        `--options=~/FILE`.
        """
        homes = [HOME_PATH.fullmatch(arg) for arg in args]
        expanded = [(home[1] or "") + os.path.expanduser(home[2]) if home else arg for home, arg in zip(homes, args)]
        name, command, rest = super().resolve_command(ctx, expanded)
        params = getattr(command, "params", [])
        OPTIONS.set({p.name.removesuffix("_path"): p.opts[0] for p in params if p.param_type_name == "option"})
        return name, command, rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List the commands in the help text, without importing them."""
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))


app = typer.Typer(name="elmo", cls=LazyGroup, no_args_is_help=True, rich_markup_mode=None, add_completion=False)


@app.callback()
def elmo_cli() -> None:
    """ELMo: inspect, convert and pretrain biLMs, and compute contextual vectors."""
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        _escape_unencodable(stream)


def _open_missing_streams() -> None:
    """Discard the messages of a process that has no stderr (`2>&-`, a service, pythonw). The numbers of closed streams
    are taken, since the next file that is opened would get them, and whatever is written to the stream.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf8")  # until the process ends


def _discard_output() -> None:
    """Let Python flush what stdout still holds, at its end, to nowhere."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, AttributeError):  # not a file
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _escape_unencodable(stream: Any) -> None:
    """Write characters that a console or a redirected output cannot encode (cp1252 on Windows, ASCII) as `\\u6f22`,
    instead of stopping. UTF-8 output does not change, nor do error handlers that the user chose.
    """
    is_utf8 = str(getattr(stream, "encoding", None)).lower().replace("-", "") == "utf8"
    handlers = ("strict",) if is_utf8 else ("strict", "surrogateescape")
    if getattr(stream, "errors", None) in handlers and hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
