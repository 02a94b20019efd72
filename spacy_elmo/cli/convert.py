"""`elmo convert`: biLM weights from one format to another."""

from enum import Enum
from pathlib import Path
from typing import Optional

from ..errors import Errors
from ..export import export_onnx
from ..inference.bilm import BiLM
from ..weights import save_bilm
from ..weights.formats import check_source
from . import _common
from ._app import Arg, Opt, app
from .inspect import count_parameters


class Format(str, Enum):
    """Output formats."""

    native = "native"
    bilm_tf = "bilm-tf"
    allennlp = "allennlp"
    onnx = "onnx"


class DType(str, Enum):
    """Number types on disk."""

    float32 = "float32"
    float16 = "float16"
    int8 = "int8"


@app.command("convert")
def convert_cli(
    # fmt: off
    bilm_path: str = _common.BILM_ARG,
    output_path: Path = Arg(..., help="Output folder; for ONNX a file that ends in .onnx."),
    to: Format = Opt(
        Format.native,
        "--to",
        "-T",
        help="Output format: native (safetensors), the HDF5 format of bilm-tf and AllenNLP, a model.tar.gz of AllenNLP, or ONNX (the inference graph).",
    ),
    dtype: DType = Opt(
        DType.float32,
        "--dtype",
        "-d",
        help="Number type on disk; int8 (native only) quantizes the large matrices to a quarter of their float32 size.",
    ),
    options: Optional[Path] = _common.OPTIONS_OPT,
    vocab: Optional[Path] = _common.VOCAB_OPT,
    softmax: Optional[Path] = _common.SOFTMAX_OPT,
    token_embeddings: Optional[Path] = _common.TOKEN_EMBEDDINGS_OPT,
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Write biLM weights in another format: from any format that `elmo inspect` reads to native, bilm-tf, allennlp or
    ONNX.

    The native format is a folder with config.json, weights.safetensors and, if present, vocab.txt and meta.json.
    The bilm-tf format is a folder with options.json and weights.hdf5. The allennlp format is a folder with model.tar.gz.
    An .onnx file has the graph that maps character ids to layers, for programs without torch; it cannot be read back.
    """
    with _common.show_errors():
        bilm = convert(
            bilm_path,
            output_path,
            format=to.value,
            dtype=dtype.value,
            options=options,
            vocab=vocab,
            softmax=softmax,
            token_embeddings=token_embeddings,
            force=force,
        )
    n_parameters = count_parameters(bilm)["biLM"]
    _common.msg.good(f"Saved a biLM of {n_parameters:,} parameters as {dtype.value} ({to.value})", str(output_path))


def convert(
    bilm_path: str,
    output_path: Path,
    *,
    format: str = "native",
    dtype: str = "float32",
    options: Optional[Path] = None,
    vocab: Optional[Path] = None,
    softmax: Optional[Path] = None,
    token_embeddings: Optional[Path] = None,
    force: bool = False,
) -> BiLM:
    """Load a biLM and save it in another format.

    bilm_path (str): See `load_bilm`.
    output_path (Path): A folder; for ONNX a file that ends in .onnx.
    format (str): "native", "bilm-tf", "allennlp" or "onnx".
    dtype (str): "float32", "float16" or "int8"; float32 for ONNX.
    force (bool): Replace an existing output.
    RETURNS (BiLM): The model, as loaded.
    RAISES (ValueError): For a dtype that the format does not have, EL354 for a path that does not fit the format,
        if the biLM would be replaced by itself.
    """
    _check_output(output_path, format, dtype)
    check_source(bilm_path, output_path)
    bilm = _common.open_bilm(
        bilm_path, options=options, vocab=vocab, softmax=softmax, token_embeddings=token_embeddings
    )
    if format == Format.onnx.value:
        export_onnx(bilm, output_path, force=force)
    else:
        save_bilm(bilm, output_path, format=format, dtype=dtype, force=force)
    return bilm


def _check_output(output_path: Path, format: str, dtype: str) -> None:
    """Check what can be checked before the weights are read."""
    is_onnx = format == Format.onnx.value
    if is_onnx and dtype != DType.float32.value:
        raise ValueError(
            f"The setting dtype is '{dtype}', but should be float32 for ONNX. Choose it, or another format."
        )
    if not is_onnx and output_path.suffix == ".onnx":
        raise ValueError(Errors.EL354.format(path=output_path, format=format, reason="it ends in .onnx"))
