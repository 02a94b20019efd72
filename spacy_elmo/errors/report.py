"""Errors of the report on a training. EL430 to EL439."""

from .catalogue import Catalogue


class ReportErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL430 = (
        "'{path}' has no trained pipeline: {problem}. Give the folder that `python -m spacy train --output` wrote, "
        "with model-best or model-last in it, or the folder of a pipeline, with config.cfg and meta.json."
    )
    EL431 = "'{path}' cannot be read as {kind}: {problem}. Make the file again, or remove it."
    EL432 = (
        "'{path}' cannot be read as annotated Docs: {problem}. Give a .spacy file (a DocBin), or a folder of them, "
        "such as the test data of `python -m spacy evaluate`."
    )
    EL433 = (
        "The baseline '{baseline}' is the trained pipeline itself. Give the folder of a training without ELMo with "
        "--baseline, or leave it out."
    )
