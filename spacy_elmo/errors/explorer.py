"""Errors of the explorer, the local web page. EL410 to EL419."""

from .catalogue import Catalogue


class ExplorerErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL410 = (
        "The explorer cannot listen on '{host}': it has no passwords, so it listens on this computer only. Choose "
        "127.0.0.1, ::1 or localhost with --host; to reach it from another computer, use an SSH tunnel."
    )
    EL411 = (
        'The explorer needs {missing}, which is not installed. Install it: `pip install "spacy-elmo[explore]"`, or '
        "`pip install starlette uvicorn`."
    )
    EL412 = (
        "The request was refused: its {header} is '{found}', should be {wanted}. Open the page under the address that "
        "the command printed."
    )
    EL413 = "The request is not valid: {problem}. Reload the page and try again."
    EL414 = "The text is too long: it has {n} {unit}, and this view reads at most {limit}. Shorten the text."
    EL415 = "Port {port} of {host} cannot be used: {reason}. Choose another port with --port, or 0 for any free port."
    EL416 = (
        "The explorer is busy: other requests took longer than {seconds} seconds. Wait until they are done, then try "
        "again."
    )
    EL417 = (
        "This view needs an index, and the explorer was started without one. Build one with `python -m spacy elmo "
        "index CORPUS INDEX`, then start again with --index INDEX."
    )
    EL418 = (
        "The layer weights of '{pipeline}' were learned on the layers of another biLM than '{bilm}': {problem}. Leave "
        "out --bilm, give the biLM that the pipeline was trained with, or leave out --pipeline."
    )
    EL419 = "The index has {n} uses of '{word}', and a map needs at least {wanted}. Choose a more frequent word."
