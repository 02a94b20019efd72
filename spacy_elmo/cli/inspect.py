"""`elmo inspect`: sizes, contents and problems of biLM weights."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, Mapping, Optional

import srsly

from ..export.onnx_model import find_onnx_problem
from ..inference.installation import describe_kernel
from ..util import shorten
from ..weights.contents import Capability, Contents, Origin, read_contents, read_origin
from . import _common
from ._app import app

META_CHARACTERS = 100  # of an entry of the meta data


@app.command("inspect")
def inspect_cli(
    # fmt: off
    bilm_path: str = _common.BILM_ARG,
    options: Optional[Path] = _common.OPTIONS_OPT,
    vocab: Optional[Path] = _common.VOCAB_OPT,
    softmax: Optional[Path] = _common.SOFTMAX_OPT,
    token_embeddings: Optional[Path] = _common.TOKEN_EMBEDDINGS_OPT,
    as_json: bool = _common.JSON_OPT,
    # fmt: on
) -> None:
    """Show the sizes and the contents of biLM weights, and any problems with them.

    Prints format, files with checksums, config, parameters per module, mean gate activations, vocabulary, meta data
    (long entries are shortened, but not with --json), the native kernel that computes on this CPU, and what can be done
    with the biLM. If the weights cannot be loaded, lists all problems and exits with code 1.
    """
    with _common.show_errors():
        bilm = _common.open_bilm(
            bilm_path, options=options, vocab=vocab, softmax=softmax, token_embeddings=token_embeddings
        )
        report = read_contents(bilm, read_origin(bilm_path, options))
        problem = find_onnx_problem(bilm)
    report.capabilities.append(Capability("export to onnx", problem is None, problem or "float32"))
    if as_json:
        print(srsly.json_dumps({**asdict(report), "kernel": describe_kernel()}))
    else:
        _print_report(report, bilm_path)


def _print_report(report: Contents, title: str) -> None:
    msg = _common.msg
    msg.divider(title)
    if report.origin is not None:
        _print_files(report.origin)
    msg.text(f"Architecture: {report.architecture}")
    print(f"Native kernel: {describe_kernel()}")  # not wrapped, since it ends in a path
    msg.table([(key, str(value)) for key, value in report.settings.items()], header=("Setting", "Value"), divider=True)
    counts = [(name, f"{n:,}") for name, n in report.n_parameters.items()]
    msg.table(counts, header=("Part", "Parameters"), aligns=("l", "r"), divider=True)
    gates = [(name, gate, f"{activation:.3f}") for name, gate, activation in report.gates]
    msg.table(gates, header=("Part", "Gate", "Mean activation"), aligns=("l", "l", "r"), divider=True)
    uses = [(use.name, "yes" if use.is_possible else "no", use.reason) for use in report.capabilities]
    msg.table(uses, header=("Use", "Possible", "Details"), divider=True, max_col=100)
    if report.vocabulary is not None:
        msg.text(f"Vocabulary: {report.vocabulary['n_words']:,} words, {' '.join(report.vocabulary['first'])} ...")
    if report.lexicon is not None:
        counts_of = report.lexicon
        msg.text(f"Tables of symbols: {counts_of['n_characters']:,} characters, {counts_of['n_words']:,} words")
    if report.mixes:
        mixes = [(k, mix["gamma"], *mix["shares"]) for k, mix in enumerate(report.mixes)]
        layers = [f"Layer {layer}" for layer in range(len(report.mixes[0]["shares"]))]
        rows = [[f"Mix {k}", *(f"{value:.3f}" for value in values)] for k, *values in mixes]
        msg.table(rows, header=("Part", "Gamma", *layers), aligns=("l", *"r" * (len(layers) + 1)), divider=True)
    if report.meta:
        _print_meta(report.meta)
    for problem in report.problems:
        msg.warn(problem)
    msg.good("These weights can be used")


def _print_meta(meta: Mapping[str, Any]) -> None:
    """Print a line for each entry, and say that long ones are shortened."""
    lines = {name: value if isinstance(value, str) else srsly.json_dumps(value) for name, value in meta.items()}
    rows = [(name, shorten(" ".join(line.split()), META_CHARACTERS)) for name, line in lines.items()]
    _common.msg.table(rows, header=("Meta data", ""), divider=True, max_col=META_CHARACTERS)
    if n_long := sum(len(line) > META_CHARACTERS for line in lines.values()):
        _common.msg.text(f"Entries that are shortened: {n_long}. --json prints them whole")


def _print_files(origin: Origin) -> None:
    msg = _common.msg
    msg.text(f"Format: {origin.format}, {origin.n_bytes / 1e6:,.1f} MB")
    rows = [(Path(file.name).name, f"{file.n_bytes:,}", file.sha256) for file in origin.files]
    msg.table(rows, header=("File", "Bytes", "SHA-256"), aligns=("l", "r", "l"), divider=True, max_col=70)
    if origin.download is not None:
        names = ("name", "language", "licence", "paper", "documented")
        facts = [(name.capitalize(), str(origin.download.get(name) or "unknown")) for name in names]
        msg.table(facts, header=("Origin", ""), divider=True, max_col=100)
