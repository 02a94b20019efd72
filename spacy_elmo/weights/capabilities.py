"""What can be done with a biLM, what cannot, and why."""

from dataclasses import dataclass
from typing import List

from .._choices import PRECISIONS
from ..encoding.facade import BiLM
from ..engine.quantization import check_precision, quantizable_names
from .formats import FORMATS, INT8, Format


@dataclass(frozen=True)
class Capability:
    """A use of a biLM.

    name (str): What it is.
    is_possible (bool): Whether this biLM can be used for it.
    reason (str): Why not, or how; empty if there is nothing to say.
    """

    name: str
    is_possible: bool
    reason: str = ""


def find_capabilities(bilm: BiLM) -> List[Capability]:
    """bilm (BiLM): A loaded model.
    RETURNS (List[Capability]): Vectors, perplexity, training, export to each format, each reduced precision.
    """
    exports = [_export(format, bilm) for format in FORMATS if format.write is not None]
    precisions = [_precision(name, bilm) for name in PRECISIONS if name != "float32"]
    return [_vectors(bilm), _unknown_words(bilm), _perplexity(bilm), _training(bilm), *exports, *precisions]


def _vectors(bilm: BiLM) -> Capability:
    sizes = f"{bilm.config.n_layers + 1} layers of {bilm.config.output_width} dimensions"
    is_forward = bilm.config.directions == "forward"
    return Capability("contextual vectors", True, sizes + (", forward direction only" if is_forward else ""))


def _unknown_words(bilm: BiLM) -> Capability:
    embedder = bilm.config.token_embedder
    has_characters = bilm.config.char_cnn is not None or (embedder is not None and embedder.n_characters > 0)
    if not has_characters or bilm.token_embeddings is not None:
        reason = "words outside the vocabulary share the vector of <UNK> in the token layer"
        return Capability("vectors of unknown words", False, reason)
    return Capability("vectors of unknown words", True, "from characters")


def _perplexity(bilm: BiLM) -> Capability:
    parts = {"softmax": bilm.head, "vocabulary": bilm.vocabulary}
    lacking = [name for name, part in parts.items() if part is None]
    return Capability("perplexity", not lacking, f"it lacks: {', '.join(lacking)}" if lacking else "")


def _training(bilm: BiLM) -> Capability:
    if bilm.config.token_embedder is not None:
        return Capability("further training", False, "ELMoForManyLangs: pretraining has no word input of this kind")
    if bilm.config.encoder == "bilstm":
        return Capability("further training", False, "a plain bidirectional LSTM can be fine-tuned with a task only")
    is_new = bilm.head is None or bilm.vocabulary is None
    return Capability("further training", True, "with a new vocabulary and a new softmax" if is_new else "")


def _export(format: Format, bilm: BiLM) -> Capability:
    """Export to one format."""
    reason = None if format.refuses is None else format.refuses(bilm)
    dtypes = [dtype for dtype in format.dtypes if dtype != INT8 or quantizable_names(bilm.network)]
    return Capability(f"export to {format.name}", reason is None, ", ".join(dtypes) if reason is None else reason)


def _precision(precision: str, bilm: BiLM) -> Capability:
    name = f"computation in {precision}"
    if not quantizable_names(bilm.network):
        return Capability(name, False, "it has no matrices that are computed in reduced precision")
    if bilm.config.encoder == "bilstm":
        return Capability(name, False, "the encoder 'bilstm' is computed in float32 only")
    try:
        check_precision(precision, bilm.device)
    except ValueError as error:
        return Capability(name, False, str(error).partition(": ")[2].partition(". ")[0])  # without the remedy
    return Capability(name, True, "matrices of the layers above the words")
