"""`elmo convert`: biLM weights from one format to another."""

from enum import Enum
from pathlib import Path
from typing import Optional

from ..encoding.facade import BiLM
from ..weights import save_bilm
from . import _common
from ._app import Arg, Opt, app
from .inspect import count_parameters


class Format(str, Enum):
    """Output formats."""

    native = "native"
    bilm_tf = "bilm-tf"
    allennlp = "allennlp"


class DType(str, Enum):
    """Number types on disk."""

    float32 = "float32"
    float16 = "float16"
    int8 = "int8"


@app.command("convert")
def convert_cli(
    # fmt: off
    bilm_path: str = _common.BILM_ARG,
    output_path: Path = Arg(..., help="Output folder."),
    to: Format = Opt(Format.native, "--to", "-T", help="Output format: native (safetensors), the HDF5 format of bilm-tf and AllenNLP, or a model.tar.gz of AllenNLP."),
    dtype: DType = Opt(DType.float32, "--dtype", "-d", help="Number type on disk; int8 (native only) quantizes the large matrices to a quarter of their float32 size."),
    options: Optional[Path] = _common.OPTIONS_OPT,
    vocab: Optional[Path] = _common.VOCAB_OPT,
    softmax: Optional[Path] = _common.SOFTMAX_OPT,
    token_embeddings: Optional[Path] = _common.TOKEN_EMBEDDINGS_OPT,
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Write biLM weights in another format: from any format that `elmo inspect` reads to the native, bilm-tf or
    allennlp format.

    The native format is a folder with config.json, weights.safetensors and, if present, vocab.txt and meta.json.
    The bilm-tf format is a folder with options.json and weights.hdf5. The allennlp format is a folder with model.tar.gz.
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
    output_path (Path): A folder.
    format (str): "native", "bilm-tf" or "allennlp".
    dtype (str): "float32", "float16" or "int8".
    force (bool): Replace an existing output.
    RETURNS (BiLM): The model, as loaded.
    """
    bilm = _common.open_bilm(
        bilm_path, options=options, vocab=vocab, softmax=softmax, token_embeddings=token_embeddings
    )
    save_bilm(bilm, output_path, format=format, dtype=dtype, force=force)
    return bilm
