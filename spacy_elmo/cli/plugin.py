"""Entry point of spaCy's command line, which imports this file on every call: nothing heavy, nothing optional here."""

import typer
from spacy.cli import app as spacy_app

from ._app import app as elmo


def add_to(parent: typer.Typer) -> None:
    """Make `elmo` a command of another app, once.

    parent (typer.Typer): The app of `python -m spacy`.
    """
    if all(group.typer_instance is not elmo for group in parent.registered_groups):
        parent.add_typer(elmo, name="elmo", no_args_is_help=True)


add_to(spacy_app)
