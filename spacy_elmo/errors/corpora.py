"""Errors of texts."""

from .catalogue import Catalogue


class CorporaErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL101 = "The corpus has no sentences: {source}. Give text with one tokenized sentence per line."
    EL108 = (
        "'{path}' cannot be decompressed: {reason}. The file is truncated, damaged or in another format. Create or "
        "download it again."
    )
