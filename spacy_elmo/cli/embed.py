"""`elmo embed`: contextual vectors for texts."""

from pathlib import Path
from typing import Any, Dict, Literal, Optional

from thinc.api import require_gpu
from tqdm import tqdm

from ..export.vectors import BATCH_SIZE, DOCS_PER_FILE, STDOUT, embed_corpus, open_vectors
from ..pipeline.settings import DType, Precision, Store
from . import _common
from ._app import Arg, Opt, app


@app.command("embed")
def embed_cli(
    # fmt: off
    bilm_path: str = _common.BILM_ARG,
    input_path: str = Arg(
        ...,
        help="Text (one per line), JSONL ('text' or 'words'), DocBin (each also .gz, .xz, .zst), a folder or a pattern such as 'corpus/**/*.gz' of these, or - for text from stdin.",
    ),
    output_path: str = Arg(
        ...,
        help="A file that ends in .npz (arrays), .hdf5 (a dataset per text) or .spacy (one DocBin), a folder (DocBins of --docs-per-file Docs), or - for .npz to stdout.",
    ),
    to: Literal["auto", "npz", "docbin", "hdf5"] = Opt(
        "auto", "--to", "-T", help="Format of the output; auto infers it from the suffix."
    ),
    input_format: _common.CorpusFormat = Opt(
        "auto", "--input-format", "-f", help="Format of the input; auto infers it from the suffix."
    ),
    lang: Optional[str] = _common.LANG_OPT,
    is_tokenized: bool = Opt(False, "--tokenized", "-k", hidden=True),  # accepted for compatibility, now the default
    store: Store = Opt("mixed", "--store", "-S", help="Store the mean of the layers, all layers, or both."),
    all_layers: bool = Opt(False, "--all", "-A", help="HDF5 only: store all layers (the default there)."),
    top: bool = Opt(False, "--top", "-U", help="HDF5 only: store the top layer."),
    average: bool = Opt(False, "--average", "-M", help="HDF5 only: store the mean of the layers."),
    forget_sentences: bool = Opt(
        False, "--forget-sentences", "-x", help="HDF5 only: leave out sentence_to_index, the texts with their numbers."
    ),
    pool: Optional[Literal["mean", "first", "last", "max"]] = Opt(
        None,
        "--pool",
        "-P",
        help="Store one vector per text: the mean, the first, the last or the largest value of its tokens.",
    ),
    dtype: DType = Opt("float32", "--dtype", "-d", help="Number type of the stored vectors."),
    precision: Precision = Opt(
        "float32",
        "--precision",
        "-p",
        help="Precision of the computation: reduced precision is less exact, and faster for large biLMs.",
    ),
    batch_size: int = Opt(
        BATCH_SIZE,
        "--batch-size",
        "-b",
        help="Maximum number of texts per batch. A batch is also limited to about 16,000 tokens. Small batches are slower.",
        min=1,
    ),
    docs_per_file: int = Opt(
        DOCS_PER_FILE, "--docs-per-file", "-n", help="Docs per DocBin file in an output folder.", min=1
    ),
    options: Optional[Path] = _common.OPTIONS_OPT,
    vocab: Optional[Path] = _common.VOCAB_OPT,
    token_embeddings: Optional[Path] = _common.TOKEN_EMBEDDINGS_OPT,
    gpu_id: int = _common.GPU_OPT,
    force: bool = _common.FORCE_OPT,
    # fmt: on
) -> None:
    """Compute contextual vectors for texts and save them.

    An .npz has "lengths" (tokens of each text) and the rows of all tokens, one text after the other: "mixed" (tokens,
    width) and/or "layers" (layers + 1, tokens, width), the same shapes as on a Doc. A DocBin has the Docs with their
    vectors: after `spacy_elmo.register_extensions()` they are `doc._.elmo` and `doc._.elmo_layers`. Texts are streamed,
    so memory does not grow with their number. But a DocBin file, as input or output, is held in memory as a whole: use
    an output folder for large corpora. An HDF5 file is that of AllenNLP's command elmo: a dataset per text, named by its
    number, and sentence_to_index. With --pool there is one row per text instead of one per token.
    """
    chosen = {"all": all_layers, "top": top, "average": average}
    vectors = [name for name, is_chosen in chosen.items() if is_chosen]
    layout: Dict[str, Any] = {
        "to": to,
        "pool": pool,
        "has_sentences": not forget_sentences,
        "docs_per_file": docs_per_file,
    }
    with _common.show_errors():
        if is_tokenized and lang is not None:
            raise ValueError(
                f"--tokenized and --lang {lang} exclude each other: --tokenized splits text at white space, --lang uses "
                "spaCy's tokenizer. Remove --tokenized for raw text, or --lang for tokenized text (the default)."
            )
        with open_vectors(output_path, store=store, vectors=vectors, force=force, **layout) as writer:
            # The component computes on Thinc's device; on a GPU Thinc requires CuPy.
            if _common.device_of(gpu_id) != "cpu":
                require_gpu(gpu_id)
            bilm = _common.open_bilm(bilm_path, options=options, vocab=vocab, token_embeddings=token_embeddings)
            with tqdm(disable=None, unit="tok", unit_scale=True) as progress:
                n_docs, n_tokens = embed_corpus(
                    bilm,
                    input_path,
                    writer,
                    input_format=input_format,
                    lang=lang,
                    dtype=dtype,
                    precision=precision,
                    batch_size=batch_size,
                    tell=_common.msg.info,
                    warn=_common.msg.warn,
                    on_tokens=progress.update,
                )
    if output_path != STDOUT:
        tokens, texts = _common.counted(n_tokens, "token"), _common.counted(n_docs, "text")
        _common.msg.good(f"Saved the vectors of {tokens} in {texts}", output_path)
