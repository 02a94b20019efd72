"""`elmo explore`: a local web page that shows what a biLM makes of a text."""

from contextlib import closing
from pathlib import Path
from typing import Optional

from .. import util
from . import _common
from ._app import Opt, app


@app.command("explore")
def explore_cli(
    # fmt: off
    bilm_path: Optional[str] = Opt(
        None,
        "--bilm",
        "-b",
        help="Packaged name or path of a biLM in any known format; by default the biLM of the pipeline, of the index, or en_elmo_sm.",
    ),
    index: Optional[Path] = Opt(
        None,
        "--index",
        "-i",
        help="Index of a corpus, from `elmo index`, for the views Neighbors and Senses.",
        exists=True,
    ),
    pipeline: Optional[str] = Opt(
        None,
        "--pipeline",
        "-p",
        help="Trained pipeline whose layer weights the view Compare offers: a folder, or the name of an installed package.",
    ),
    lang: Optional[str] = Opt(
        None,
        "--lang",
        "-l",
        help="Language of spaCy's tokenizer and sentence splitter; by default the language of the index, of the biLM, or en.",
    ),
    code_path: Optional[Path] = _common.CODE_OPT,
    host: str = Opt(
        "127.0.0.1", "--host", "-H", help="Address of this computer to listen on: 127.0.0.1, ::1 or localhost."
    ),
    port: int = Opt(8765, "--port", "-P", help="Port to listen on, 0 for any free port.", min=0, max=65535),
    # fmt: on
) -> None:
    """Explore a biLM in the browser, on this computer only.

    Views: similarities of the tokens of two texts, for each layer and any mix; nearest neighbors and senses of a word
    in a corpus; surprisal and substitutes; tokens, contexts and truncated words. Ctrl+C stops it.
    """
    with _common.show_errors():
        remedy = '`pip install "spacy-elmo[explore]"`, or `pip install starlette uvicorn`'
        for name, is_installed in (("starlette", util.has_starlette), ("uvicorn", util.has_uvicorn)):
            util.require_package(is_installed, "The explorer", name, remedy)
        from ..explorer import opening, serving

        _common.import_code(code_path)
        with serving.open_socket(host, port) as bound:
            opened = opening.open_explorer(bilm=bilm_path, index=index, pipeline=pipeline, lang=lang)
            with closing(opened) as explorer:
                _common.msg.good(f"Open {serving.address_of(bound)} in a browser. Ctrl+C stops the explorer.")
                serving.serve(explorer, bound)
