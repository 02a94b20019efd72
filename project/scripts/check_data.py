"""Check that the data of a workflow is there, before hours of training."""

from typing import Callable, List, Optional

import typer
from data_files import find_sources
from known_datasets import FILES
from raw_text import read_sentences
from wasabi import msg


def check_cli(
    # fmt: off
    names: List[str] = typer.Argument(..., help=f"Data sets: {', '.join(FILES)}"),
    assets_dir: str = typer.Option("", "--assets-dir", "-a", help="Folder with local copies; empty for downloads"),
    raw_text: Optional[str] = typer.Option(
        None, "--raw-text", "-t", help="Tokenized text that is needed, too: a file, folder or pattern"
    ),  # noqa: E501
    # fmt: on
) -> None:
    """Look for the files of all data sets, and name all that are missing."""
    problems = find_problems(names, assets_dir, raw_text)
    if problems:
        msg.fail("Data is missing")
        typer.echo("\n".join(problems))  # wasabi would merge the lines
        raise typer.Exit(1)
    msg.good(f"The data is there: {', '.join(names)}")


def find_problems(names: List[str], assets_dir: str = "", raw_text: Optional[str] = None) -> List[str]:
    """names (List[str]): Names in `FILES`.
    assets_dir (str): See `find_sources`.
    raw_text (Optional[str]): See `read_sentences`; None if no raw text is needed.
    RETURNS (List[str]): The message of each data set, or raw text, that is not there.
    """
    problems = [_find_problem(find_sources, name, assets_dir) for name in names]
    if raw_text is not None:
        problems.append(_find_problem(_read_first, raw_text))
    return [problem for problem in problems if problem]


def _find_problem(look: Callable[..., object], *arguments: str) -> str:
    try:
        look(*arguments)
    except (ValueError, OSError) as e:
        return str(e)
    return ""


def _read_first(raw_text: str) -> List[str]:
    return next(read_sentences([raw_text]))


if __name__ == "__main__":
    typer.run(check_cli)
