"""Errors of models of ELMoForManyLangs, and of biLMs of their kind. EL308."""

from .catalogue import Catalogue


class ManyLangsErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL308 = (
        "This biLM cannot be saved in the {format} format: {problems}. The vectors would differ. Save it with format "
        '"native".'
    )
