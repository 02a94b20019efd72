"""`elmo download`: get a published biLM from where its publisher keeps it."""

from dataclasses import asdict
from pathlib import Path
from typing import List, Optional, Tuple

import srsly
import typer
from tqdm import tqdm

from ..weights.download import Downloaded, download
from ..weights.load import detect_format
from ..weights.published import Published, find_published, list_published
from . import _common
from ._app import Arg, Opt, app

NOTHING = "-"
UNKNOWN = "not documented"
EXAMPLE = "python -m spacy elmo download original --dest elmo"


@app.command("download")
def download_cli(
    # fmt: off
    name: Optional[str] = Arg(
        None, help="Name of a published biLM, see --list, or nlpl-NUMBER for an entry of the NLPL repository."
    ),
    dest: Optional[Path] = Opt(None, "--dest", "-d", help="Output folder."),
    local_files: Optional[List[Path]] = Opt(
        None,
        "--from",
        "-f",
        help="File fetched by other means, or a folder with the files; repeat for several files. Nothing is downloaded.",
        exists=True,
    ),
    mirrors: Optional[List[str]] = Opt(
        None,
        "--mirror",
        "-m",
        help="Address of a folder with the files under their published names, tried before the documented addresses; repeat for several.",
    ),
    is_list: bool = Opt(
        False, "--list", "-l", help="List all names with language, size, format and licence, and download nothing."
    ),
    as_json: bool = _common.JSON_OPT,
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Download a published biLM, or list the published biLMs.

    The files come from the addresses that their publisher documents, and are checked; an interrupted download is
    continued by the same command. Their checksums, licence and paper are recorded in origin.json beside them.
    """
    if is_list:
        _print_list(as_json)
        return
    if name is None or dest is None:
        raise typer.BadParameter(f"pass NAME and --dest FOLDER ({EXAMPLE}), or --list for all names")
    with _common.show_errors():
        published = find_published(name)
        with tqdm(unit="B", unit_scale=True, unit_divisor=1024, disable=None) as bar:
            files = download(
                published, dest, local_files=local_files or (), mirrors=mirrors or (), force=force, on_bytes=bar.update
            )
    if as_json:
        print(
            srsly.json_dumps({"name": published.name, "folder": str(dest), "files": [asdict(file) for file in files]})
        )
    else:
        _print_files(files)
    _show_next(published, files, dest)


def _show_next(published: Published, files: Tuple[Downloaded, ...], dest: Path) -> None:
    if not all(file.is_documented for file in files):
        _common.msg.info(
            "No checksum is documented for these files. The checksums above are of this download, recorded in "
            "origin.json: compare them with another download"
        )
    _common.msg.info(
        f"Licence: {published.licence or UNKNOWN}. Paper: {published.paper or UNKNOWN}. See {published.documented}"
    )
    try:
        format, _ = detect_format(dest)
    except ValueError as error:
        _common.msg.warn(f"The files are complete, but this version cannot read them: {error}")
        return
    _common.msg.good(f"Saved '{published.name}' ({format.name}). Next: python -m spacy elmo inspect {dest}")


def _print_files(files: Tuple[Downloaded, ...]) -> None:
    rows = [(file.name, f"{file.n_bytes:,}", file.sha256, file.url) for file in files]
    _common.msg.table(rows, header=("File", "Bytes", "SHA-256", "From"), aligns=("l", "r", "l", "l"), divider=True)


def _print_list(as_json: bool) -> None:
    if as_json:
        print(srsly.json_dumps([{**asdict(model), "size": model.size} for model in list_published()]))
        return
    rows = [
        (
            ", ".join([model.name, *model.aliases[:1]]),
            model.language or NOTHING,
            NOTHING if model.size == UNKNOWN else model.size,
            model.format,
            (model.licence or NOTHING).partition(";")[0],
        )
        for model in list_published()
    ]
    _common.msg.table(rows, header=("Name", "Language", "Size", "Format", "Licence"), divider=True)
    print(f"{NOTHING} is not documented; --json has all that is known, with all names. Next, for instance:\n{EXAMPLE}")
