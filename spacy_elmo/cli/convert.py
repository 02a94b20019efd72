"""`elmo convert`: biLM weights from one format to another."""

from pathlib import Path
from typing import Literal, Optional

from ..errors import Errors
from ..export import export_onnx
from ..files import check_not_read
from ..weights import save_bilm
from ..weights.contents import count_parameters
from ..weights.load import list_sources
from . import _common
from ._app import Arg, Opt, app

FILE_SUFFIXES = (".onnx", ".hdf5", ".safetensors")  # of files that are easily expected where a folder is written


@app.command("convert")
def convert_cli(
    # fmt: off
    bilm_path: str = _common.BILM_ARG,
    output_path: Path = Arg(..., help="Output folder; for ONNX a file that ends in .onnx."),
    to: Literal["native", "bilm-tf", "onnx"] = Opt(
        "native",
        "--to",
        "-T",
        help="Output format: native (safetensors), the HDF5 format that bilm-tf and AllenNLP read, or ONNX (the inference graph).",
    ),
    dtype: Literal["float32", "float16", "int8"] = Opt(
        "float32",
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
    """Write biLM weights in another format: from any format that `elmo inspect` reads to native, bilm-tf or ONNX.

    The native format is a folder with config.json, weights.safetensors and, if present, vocab.txt and meta.json.
    The bilm-tf format is a folder with options.json and weights.hdf5, which AllenNLP reads, too.
    An .onnx file has the graph that maps character ids to layers, for programs without torch; it cannot be read back.
    All of them keep the name, language, licence and sources of the biLM, as the licence of published weights may require.
    --force replaces only a biLM that this package wrote, and never the biLM that is read.
    """
    with _common.show_errors():
        # What can be checked before the weights are read.
        if to == "onnx" and dtype != "float32":
            raise ValueError(f"The dtype is '{dtype}', but an ONNX graph has float32. Leave --dtype out.")
        if to != "onnx" and output_path.suffix.lower() in FILE_SUFFIXES and not output_path.is_dir():
            reason = f"it ends in {output_path.suffix}"
            raise ValueError(Errors.EL354.format(path=output_path, format=to, reason=reason))
        check_not_read(output_path, list_sources(bilm_path, options, vocab, softmax, token_embeddings))
        bilm = _common.open_bilm(
            bilm_path, options=options, vocab=vocab, softmax=softmax, token_embeddings=token_embeddings
        )
        if to == "onnx":
            export_onnx(bilm, output_path, force=force)
        else:
            save_bilm(bilm, output_path, format=to, dtype=dtype, force=force)
    n_parameters = count_parameters(bilm)["biLM"]
    _common.msg.good(f"Saved a biLM of {n_parameters:,} parameters as {dtype} ({to})", str(output_path))
