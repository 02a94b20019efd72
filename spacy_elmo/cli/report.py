"""`elmo report`: a page on a training, with and without ELMo."""

import sys
from pathlib import Path
from typing import Optional

from ..analysis.report import make_report
from ..analysis.report_page import render_report, summarize_report
from ..files import check_output_file, write_text
from . import _common
from ._app import Arg, Opt, app

DEFAULT_NAME = "report.html"


@app.command("report")
def report_cli(
    # fmt: off
    output_dir: Path = Arg(
        ..., help="Folder that `spacy train --output` wrote, with model-best; or a trained pipeline."
    ),
    baseline: Optional[Path] = Opt(None, "--baseline", "-b", help="Folder of the same training without ELMo."),
    data: Optional[Path] = Opt(
        None,
        "--data",
        "-d",
        help="Annotated Docs (.spacy), for instance the test data, to run the pipelines on.",
        exists=True,
    ),
    html: Optional[Path] = Opt(
        None, "--html", "-H", help=f"File for the page. Default: {DEFAULT_NAME} in the folder of the training."
    ),
    code_path: Optional[Path] = _common.CODE_OPT,
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Write a page about a training run: scores, errors, layer weights, curves, settings; with a baseline what ELMo
    changes.

    The page is one HTML file that needs no other file. It shows what is available, and lists what would complete it;
    without --html an earlier page is replaced. Folders beside OUTPUT_DIR whose names differ in a number at the end are
    taken for other seeds.
    """
    path = output_dir / DEFAULT_NAME if html is None else html
    with _common.show_errors():
        if output_dir.is_dir():  # the page in the folder of the training is made again
            sources = [source for source in (output_dir, baseline, data, code_path) if source is not None]
            check_output_file(path, force=force or html is None, sources=sources)
        _common.import_code(code_path)
        report = make_report(output_dir, baseline=baseline, data=data, code=code_path)
        write_text(path, render_report(report), errors="replace")
    print("\n".join(summarize_report(report)), flush=True)
    for line in report.advice:
        print(line, flush=True)
    for note in report.notes:
        sentence, *commands = note.splitlines()
        _common.msg.warn(sentence)
        for command in commands:  # in one line each, to be copied
            print(command, file=sys.stderr, flush=True)
    if report.baseline is None:
        _common.msg.info(report.hints[0])
    print(f"Report: {path.resolve()}")
