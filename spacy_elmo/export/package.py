"""`package_bilm`: a biLM as a spaCy pipeline package, which pip installs and `spacy.load` opens by its name."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Dict, Literal

from spacy.cli.package import has_build, package
from spacy.language import Language
from spacy.util import get_minor_version_range

from ..about import __title__, __version__
from ..corpora.texts import make_nlp
from ..errors import Errors
from ..files import follow_links, to_path
from ..inference.bilm import BiLM
from ..pipeline import component as _elmo  # noqa: F401  registers the factory
from ..pipeline.model import set_bilm
from ..pipeline.torch_bilm import copy_bilm
from ..settings import Precision, check_arguments
from ..util import require_package
from ..weights.archive import PathLike
from ..weights.meta import list_training_texts

NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")
VERSION_PATTERN = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*))*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?")
TEXTS = ("description", "license", "author", "email", "url")  # of the meta data of a biLM, copied to the package


@check_arguments
def package_bilm(
    bilm: BiLM,
    path: PathLike,
    *,
    name: str,
    lang: str = "xx",
    version: str = "1.0.0",
    precision: Precision = "float32",
    build: Literal["wheel", "sdist", "none"] = "wheel",
    force: bool = False,
) -> Path:
    """Write the package `LANG_elmo_NAME`: a pipeline with the component `elmo`, the weights inside.

    The folder `LANG_elmo_NAME-VERSION` appears as a whole or not at all. Nothing is downloaded: packages are built with
    the installed setuptools.

    bilm (BiLM): The model, which stays as it is. The package does not have its softmax.
    path (PathLike): Folder for the folder of the package.
    name (str): Lower-case letters, digits and single underscores.
    lang (str): Language of the pipeline, "xx" for any.
    version (str): Version of the package, for example "1.0.0".
    precision (str): Precision of the computation; "int8" also stores the large matrices in a quarter of the size.
    build (str): "wheel", "sdist", or "none" for the folder only.
    force (bool): Replace an existing folder of this package and version.
    RETURNS (Path): The wheel or sdist, or the folder with `build="none"`.
    RAISES (ValueError): For an invalid name, version, language or build, a folder that exists, a build that fails, or
        without the package build.
    """
    check_package(path, name=name, lang=lang, version=version, build=build, force=force)
    folder = to_path(path)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".package.", dir=folder) as work:
        nlp = make_packaged_pipeline(bilm, lang, name=name, version=version, precision=precision)
        nlp.to_disk(Path(work) / "pipeline")
        target = find_folder(path, lang=lang, name=name, version=version)
        made = _write_package(Path(work), target.name)
        if build != "none":
            _run_build(made, build)
        _replace_folder(made, follow_links(target), Path(work) / "old")
    return next((target / "dist").iterdir()) if build != "none" else target


def check_package(path: PathLike, *, name: str, lang: str, version: str, build: str, force: bool) -> None:
    """Check all arguments of `package_bilm`, before weights are read. ValueError as there."""
    make_nlp(lang)
    expected = "lower-case letters a-z, digits and single underscores between them (PEP 503)"
    _check_pattern(NAME, "name", name, expected, "news or de_wiki_2018")
    _check_pattern(
        VERSION_PATTERN, "version", version, "a version as in PEP 440, in its normal form", "1.0.0 or 2.1rc1"
    )
    target = find_folder(path, lang=lang, name=name, version=version)
    if target.exists() and (not force or not target.is_dir()):
        raise ValueError(Errors.EL025.format(path=target, kind="folder" if target.is_dir() else "file"))
    remedy = "`pip install build setuptools`, or write only the folder with `build='none'`"
    require_package(build == "none" or has_build(), "Building a package", "the package build", remedy)


def find_folder(path: PathLike, *, lang: str, name: str, version: str) -> Path:
    """The folder of a package in the folder `path`, with name and version as pip expects them."""
    return to_path(path) / f"{lang}_elmo_{name}-{version}"


def make_packaged_pipeline(bilm: BiLM, lang: str, *, name: str, version: str, precision: str) -> Language:
    """A pipeline of the component `elmo`, which uses the biLM, with the meta data of the package."""
    nlp = make_nlp(lang)
    elmo: Any = nlp.add_pipe("elmo", config={"model": {"precision": precision}})
    set_bilm(elmo.model, copy_bilm(bilm))
    nlp.meta.update(describe_package(bilm.meta), name=f"elmo_{name}", version=version)
    # The lowest version that is known to read these weights, up to the next version that may change.
    nlp.meta["requirements"] = [__title__ + str(get_minor_version_range(__version__))]
    return nlp


def describe_package(meta: Dict[str, Any]) -> Dict[str, Any]:
    """Meta data of a pipeline from a biLM's: description, licence, author, sources."""
    record: Dict[str, Any] = {key: meta[key] for key in TEXTS if isinstance(meta.get(key), str)}
    record.setdefault("description", "ELMo vectors")
    record.setdefault("license", "")
    sources = list_training_texts(meta)
    return {**record, "sources": sources} if sources else record


def _check_pattern(pattern: "re.Pattern[str]", what: str, value: str, expected: str, example: str) -> None:
    if not pattern.fullmatch(value):
        raise ValueError(
            f"'{value}' is not a valid {what} of a package: it should be {expected}. Choose another {what}, for "
            f"example {example}."
        )


def _write_package(work: Path, name: str) -> Path:
    """Write a folder by spaCy's `package`."""
    (work / "packages").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # spaCy leaves it to Python to close files
        package(work / "pipeline", work / "packages", create_sdist=False, create_wheel=False, require_parent=True)
    return work / "packages" / name


def _run_build(folder: Path, build: str) -> None:
    """Build without the network: with the installed setuptools."""
    command = [sys.executable, "-m", "build", f"--{build}", "--no-isolation", str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if result.returncode or not (folder / "dist").is_dir():
        lines = (result.stdout + result.stderr).strip().splitlines()
        reason = lines[-1] if lines else f"exit code {result.returncode}"
        raise ValueError(
            f"The package '{folder.name}' could not be built: {reason}. Build it from its folder later (`python -m "
            "build`), or write only the folder with `build='none'`."
        )
    for made in ("build", *(path.name for path in folder.glob("*.egg-info"))):
        shutil.rmtree(folder / made, ignore_errors=True)


def _replace_folder(made: Path, target: Path, aside: Path) -> None:
    """Rename, and restore what was there if that fails."""
    if target.exists():
        os.rename(target, aside)
    try:
        os.rename(made, target)
    except OSError:
        if aside.exists():
            os.rename(aside, target)
        raise
