"""Limits of what one request may ask for. They bound the memory and the time of a request."""

from ..errors import Errors

MAX_BODY_BYTES = 2**20
BODY_SECONDS = 30.0  # in which the body of a request must arrive
BUSY_SECONDS = 60.0  # that a request waits for others
MAX_CHARACTERS = 20_000
MAX_TOKENS = 5_000
MAX_RUN = 500  # characters without white space that are split into tokens; longer runs are one token
MAX_COMPARED = 60  # tokens of each text of the view Compare
MAX_WORD = 200  # characters of a word to look up
MAX_RESULTS = 50
MAX_USES = 500  # points of a map of senses


def check_length(n: int, unit: str, limit: int) -> None:
    """n (int): Length found.
    unit (str): What is counted, in the plural.
    limit (int): The largest length.
    RAISES (ValueError): EL414 for more.
    """
    if n > limit:
        raise ValueError(Errors.EL414.format(n=f"{n:,}", unit=unit, limit=f"{limit:,}"))
