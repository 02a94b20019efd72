"""`elmo package`: a biLM as a spaCy pipeline package."""

from pathlib import Path
from typing import Any, Dict, Literal, Optional

from ..export.package import check_package, find_folder, package_bilm
from ..files import check_not_read
from ..settings import Precision
from ..weights.load import list_sources
from . import _common
from ._app import Arg, Opt, app


@app.command("package")
def package_cli(
    # fmt: off
    bilm_path: str = _common.BILM_ARG,
    output_path: Path = Arg(..., help="Folder for the folder of the package."),
    name: str = Opt(
        ..., "--name", "-n", help="Name of the package without language and 'elmo': news for en_elmo_news."
    ),
    lang: Optional[str] = Opt(
        None,
        "--lang",
        "-l",
        help="Language of the pipeline; by default the language of the biLM, or xx, for any language.",
    ),
    version: str = Opt("1.0.0", "--version", "-r", help="Version of the package."),
    precision: Precision = Opt(
        "float32",
        "--precision",
        "-p",
        help="Precision of the computation; int8 also stores the large matrices in a quarter of the size.",
    ),
    build: Literal["wheel", "sdist", "none"] = Opt(
        "wheel",
        "--build",
        "-b",
        help="Build a wheel or an sdist, or none: only the folder, which pip can install too.",
    ),
    options: Optional[Path] = _common.OPTIONS_OPT,
    vocab: Optional[Path] = _common.VOCAB_OPT,
    token_embeddings: Optional[Path] = _common.TOKEN_EMBEDDINGS_OPT,
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Build a spaCy pipeline package from biLM weights in any known format.

    The package LANG_elmo_NAME has the component elmo with the weights inside: after `pip install` of the wheel,
    spacy.load("LANG_elmo_NAME") opens it. It requires spacy-elmo. Nothing is downloaded.
    """
    with _common.show_errors():
        # Before the weights are read: "xx" stands for the language of the biLM, which is valid.
        names: Dict[str, Any] = {"name": name, "version": version, "build": build, "force": force}
        check_package(output_path, lang=lang or "xx", **names)
        sources = list_sources(bilm_path, options, vocab, token_embeddings)
        bilm = _common.open_bilm(bilm_path, options=options, vocab=vocab, token_embeddings=token_embeddings)
        lang = lang or str(bilm.meta.get("lang") or "xx")
        check_not_read(find_folder(output_path, lang=lang, name=name, version=version), sources)
        made = package_bilm(bilm, output_path, lang=lang, precision=precision, **names)
    _common.msg.good("Saved a spaCy package", str(made))
    text = (
        "It requires spacy-elmo, which no package index has. Pass on its wheel in the same FOLDER, made in a checkout:"
    )
    _common.print_next(text, ["pip wheel . --no-deps -w FOLDER", f"pip install --find-links FOLDER FOLDER/{made.name}"])
