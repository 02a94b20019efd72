"""Errors of the command line: arguments and outputs. EL134, EL177, EL178, EL210, EL381."""

from .catalogue import Catalogue


class CLIErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL134 = "The output '{path}' exists already. {remedy}"
    EL177 = "Cannot {what} {path}: {reason}. {remedy}"
    EL178 = "'{path}' cannot be a folder: '{taken}' is a file. Choose another path."
    EL210 = (
        "The pipeline '{pipeline}' for the language '{lang}' cannot be created: {problems}. Name components with "
        "--component, separated by commas, for example --component ner or --component tagger,parser; or pass annotated "
        "Docs with --data, for the components that they have annotations for."
    )
    EL381 = (
        "{text} has {found} of the word '{word}', fewer than the {wanted} asked for. Its tokens are: {tokens}. Give "
        "one of them as it is written, or an earlier occurrence, or another language with --lang."
    )
