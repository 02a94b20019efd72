"""Entry point of spaCy's command line. spaCy imports it on every call, so it imports no large or optional package."""

import typer
from spacy.cli import app as spacy_app

from ._app import app as elmo


def add_to(parent: typer.Typer) -> None:
    """Add the command `elmo` to another app. Further calls have no effect.

    parent (typer.Typer): The app of `python -m spacy`.
    """
    if all(group.typer_instance is not elmo for group in parent.registered_groups):
        parent.add_typer(elmo, name="elmo", no_args_is_help=True)


add_to(spacy_app)
