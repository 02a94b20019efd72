"""`python -m spacy_elmo`, the same as `python -m spacy elmo`."""

from .cli._app import app

if __name__ == "__main__":
    app(prog_name="python -m spacy_elmo")
