"""Commands that read one text: their argument, and the file that they write."""

import sys
from typing import Union

from ..errors import Errors
from ..text.vocabulary import BYTE_ORDER_MARK
from ._app import Arg, Opt

LANG_OPT = Opt(
    None,
    "--lang",
    "-l",
    help="Language of spaCy's tokenizer and sentence splitter. Defaults to that of the biLM, or en.",
)
TEXT_ARG = Arg(..., help="The text, in quotation marks; - reads it from stdin.")


def read_text(text: str) -> str:
    """text (str): A text, or - for stdin.
    RETURNS (str): The text. Stdin is UTF-8, whatever the encoding of the console.
    RAISES (ValueError): EL380 if it is empty; see `to_unicode`.
    """
    found = to_unicode(sys.stdin.buffer.read() if text == "-" else text)
    if not found.strip():
        raise ValueError(Errors.EL380)
    return found


def to_unicode(text: Union[bytes, str]) -> str:
    """text (Union[bytes, str]): UTF-8, or an argument in which Python has escaped bytes (in an ASCII locale).
    RETURNS (str): The text without escapes, and without a byte order mark.
    RAISES (ValueError): If it is not UTF-8.
    """
    try:
        content = text.encode("utf8", "surrogateescape") if isinstance(text, str) else text
        return content.decode("utf8").removeprefix(BYTE_ORDER_MARK)
    except UnicodeError as error:
        raise ValueError(f"The text is not valid UTF-8: {error}. Convert it to UTF-8.") from error
