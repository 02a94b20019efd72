"""`elmo compare`: whether two biLMs give the same vectors, and where not."""

from collections import Counter
from dataclasses import asdict
from typing import Any, Dict, Optional, Sequence

import srsly
import typer

from ..corpora.shards import find_shards, read_shards
from ..util import finite_or_none, shorten
from ..weights.contents import COMPARED_SENTENCES, DIFFERENT, SAME, VECTOR_TOLERANCE, Comparison, compare_bilms
from . import _common
from ._app import Arg, Opt, app

ERROR = 2  # exit code; 1 means that the biLMs differ
MAX_SHOWN = 20  # tensors


@app.command("compare")
def compare_cli(
    # fmt: off
    a_path: str = _common.BILM_ARG,
    b_path: str = Arg(..., help="The other biLM."),
    text_path: Optional[str] = Arg(
        None,
        help="Text with one sentence per line, JSONL or DocBin, or - for stdin. Defaults to built-in sentences with odd characters and lengths.",
    ),
    tolerance: float = Opt(
        VECTOR_TOLERANCE,
        "--tolerance",
        "-t",
        help="Largest absolute difference of a number in a vector that counts as equal.",
        min=0.0,
    ),
    lang: Optional[str] = _common.LANG_OPT,
    as_json: bool = _common.JSON_OPT,
    # fmt: on
) -> None:
    """Test whether two biLMs give the same vectors, and show where they differ.

    Compares the settings, the tensors, and the vectors of each layer. Exits with 0 if the vectors are equal within the
    tolerance, with 1 if they are not, and with 2 for errors.
    """
    with _common.show_errors(code=ERROR):
        sentences: Sequence[Sequence[str]] = COMPARED_SENTENCES
        if text_path is not None:
            sentences = [list(sentence) for sentence in read_shards(find_shards([text_path], lang=lang))]
            if not any(sentences):
                raise ValueError(
                    f"There are no sentences to compare the vectors on in '{text_path}'. Pass a text with at least one "
                    "token."
                )
        comparison = compare_bilms(_common.open_bilm(a_path), _common.open_bilm(b_path), sentences)
    is_equal = comparison.is_equal(tolerance)
    if as_json:
        print(srsly.json_dumps(_to_record(comparison, tolerance)))
    else:
        _print(comparison, tolerance)
    if is_equal:
        _common.msg.good(f"The vectors are equal within {tolerance:g}")
    else:
        _common.msg.fail("The vectors differ")
    raise typer.Exit(0 if is_equal else 1)


def _to_record(comparison: Comparison, tolerance: float) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): The comparison in JSON types; a difference that is not finite is None."""
    record = {**asdict(comparison), "is_equal": comparison.is_equal(tolerance), "tolerance": tolerance}
    for layer in record["layers"]:
        layer["max_difference"] = finite_or_none(layer["max_difference"])
        layer["mean_cosine"] = finite_or_none(layer["mean_cosine"])
        layer["token"] = layer["token"].encode("utf8", "replace").decode("utf8")
    for tensor in record["tensors"]:
        tensor["max_difference"] = finite_or_none(tensor["max_difference"])
    return {**record, "first_different_layer": comparison.first_different(tolerance)}


def _print(comparison: Comparison, tolerance: float) -> None:
    _print_settings(comparison)
    _print_tensors(comparison)
    rows = [
        (
            str(layer.layer),
            f"{layer.max_difference:.3g}",
            f"{layer.mean_cosine:.7f}",
            f"{shorten(repr(layer.token), 40)} (sentence {layer.sentence + 1}, token {layer.position})",
        )
        for layer in comparison.layers
    ]
    header = ("Layer", "Largest difference", "Mean cosine", "Where")
    _common.msg.table(rows, header=header, aligns=("r", "r", "r", "l"), divider=True, max_col=80)
    _common.msg.text(f"{comparison.n_tokens:,} tokens, from the zero state in each sentence; token 0 is BOS")
    first = comparison.first_different(tolerance)
    if first is not None:
        _common.msg.text(f"The first layer that differs is layer {first}" + (", the token layer" if first == 0 else ""))
    if not comparison.has_same_shape:
        compared = (
            f"only the first {len(comparison.layers)} layers were compared"
            if comparison.layers
            else "no layer was compared"
        )
        _common.msg.text(f"The numbers of layers or their widths differ; {compared}")


def _print_settings(comparison: Comparison) -> None:
    rows = [(name, str(a), str(b)) for name, (a, b) in comparison.settings.items()]
    if rows:
        _common.msg.table(rows, header=("Setting", "A", "B"), divider=True, max_col=50)
    else:
        _common.msg.text("All settings are the same")


def _print_tensors(comparison: Comparison) -> None:
    counts = Counter(tensor.status for tensor in comparison.tensors)
    _common.msg.text("Tensors: " + ", ".join(f"{n} {status}" for status, n in counts.items()))
    others = [tensor for tensor in comparison.tensors if tensor.status != SAME]
    others.sort(key=lambda tensor: tensor.status == DIFFERENT)
    rows = [
        (tensor.name, tensor.status, "" if tensor.max_difference is None else f"{tensor.max_difference:.3g}")
        for tensor in others[:MAX_SHOWN]
    ]
    if rows:
        _common.msg.table(rows, header=("Tensor", "Status", "Largest difference"), divider=True, max_col=60)
    if len(others) > MAX_SHOWN:
        _common.msg.text(f"... and {len(others) - MAX_SHOWN:,} more (all of them with --json)")
