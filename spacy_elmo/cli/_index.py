"""Commands that read an index: opening it with its biLM, and showing uses as keyword-in-context lines."""

from pathlib import Path
from typing import Any, Dict, Optional, Tuple

from ..analysis.neighbors import LayerName, NeighborIndex, to_printable
from ..analysis.token_store import Use
from ..inference.bilm import BiLM
from . import _common
from ._app import Arg, Opt

INDEX_ARG = Arg(..., help="Folder that `elmo index` wrote.")
BILM_OPT = Opt(None, "--bilm", "-b", help="The biLM of the index, if it is no longer where it was.")
LAYER_OPT = Opt(None, "--layer", "-L", help="Layer: 0 (the token layer) to the number of LSTM layers, or mean.")
GROUP_BY_OPT = Opt(
    None,
    "--group-by",
    "-y",
    help="A field of the documents that `elmo index --keep` stored, for instance year or period (a text); or document, for each document.",
)
BIN_WIDTH_OPT = Opt(
    None,
    "--bin-width",
    help="Join numbers and dates of --group-by into groups of this width, for instance 10 for decades; by default at most 10 groups.",
    min=1e-6,
)
SIDE = 36  # characters of context on each side


def open_index(path: Path, layer: Optional[str] = None) -> NeighborIndex:
    """RETURNS (NeighborIndex): Open for reading. RAISES (ValueError): If it stores another layer; see
    `NeighborIndex.open`.
    """
    index = NeighborIndex.open(path)
    if layer is not None and to_layer(layer) != index.layer:
        index.close()
        raise ValueError(
            f"The index '{path}' has no layer {layer}: it stores layer {index.layer}. Leave --layer out, or "
            "build an index of that layer."
        )
    return index


def open_bilm_of(index: NeighborIndex, bilm_path: Optional[str], gpu_id: int = -1) -> BiLM:
    """RETURNS (BiLM): The biLM of an index, from where it was or is now. RAISES (ValueError): EL394 for another one."""
    bilm = index.load_bilm(bilm_path).to(_common.device_of(gpu_id))
    index.check_bilm(bilm)
    return bilm.set_precision(index.settings["precision"])


def check_group_by(group_by: Optional[str], **options: Any) -> None:
    """RAISES (ValueError): For options of the groups without groups."""
    needless = next((name for name, value in options.items() if value is not None), None)
    if needless is not None and group_by is None:
        name = f"--{needless.replace('_', '-')}"
        raise ValueError(f"{name} is for the groups of a field. Name it with --group-by, for instance --group-by year.")


def to_layer(layer: str) -> LayerName:
    """RETURNS (LayerName): A number, or the text if it is not one."""
    return int(layer) if layer.isdecimal() else layer


def to_line(use: Use) -> Tuple[str, str, str]:
    """RETURNS (Tuple[str, str, str]): The words before it, the word and the words after it, for a terminal: cut at
    `SIDE` characters, and control characters replaced."""
    left, right = " ".join(use.words[: use.position]), " ".join(use.words[use.position + 1 :])
    before = left if len(left) <= SIDE else f"…{left[1 - SIDE :]}"
    after = right if len(right) <= SIDE else f"{right[: SIDE - 1]}…"
    return to_printable(before), to_printable(use.word), to_printable(after)


def to_record(use: Use, **values: Any) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): A use, for JSON."""
    return {**values, **use._asdict()}
