"""`export_onnx`: the inference graph of a biLM as one ONNX file, for programs without torch."""

import json
from typing import Any, Dict, List, Optional

import torch
from numpy.typing import NDArray
from torch import Tensor

from ..about import __title__, __version__
from ..errors import Errors
from ..files import atomic_file, to_path
from ..inference.bilm import BiLM
from ..inference.runtime import isolated
from ..inference.word_encoder import BOUNDARIES
from ..text.words import Utf8Codec
from ..util import has_onnx, require_package
from ..weights.archive import PathLike
from ..weights.meta import list_training_texts
from ..weights.save import not_saved
from .onnx_graph import (
    FLOAT,
    INT64,
    Arrays,
    OnnxGraph,
    StartState,
    add_characters,
    add_lstm_layers,
    add_range,
    add_transformer_layers,
    split_shape,
)

ONNX_SUFFIX = ".onnx"
EXPORTED_ENCODERS = ("lstm", "transformer")
OPSET = 17  # operators of ONNX 1.12
IR_VERSION = 8
MAX_GRAPH_BYTES = 2**31 - 2**20  # a protobuf message has at most 2 GiB; the rest is for the nodes
FLOAT_BYTES = 4
REPLACED_BY_TABLE = ("char_cnn.", "word_emb")  # parameters that a graph with token embeddings lacks


def export_onnx(bilm: BiLM, path: PathLike, *, force: bool = False) -> None:
    """Write the inference graph of a biLM in float32, atomically. Only the axes of the model have a fixed size.

    Inputs: `char_ids` (B, S, C) int64, as `batch_to_ids` makes them, or `word_ids` (B, S) int64 for a biLM that reads
    whole words; and `lengths` (B,) int64, the words of each sentence. Output: `layers` (L+1, B, S, D), zero after the
    end of a sentence. As with `BiLM.embed`, each sentence starts from the zero state, and boundaries are added.

    bilm (BiLM): The model, float32.
    path (PathLike): A file that ends in .onnx.
    force (bool): Replace an existing file.
    RAISES (ValueError): If the file exists or has another suffix; without the package onnx; EL352 for a biLM that has
        no ONNX form: in reduced precision, with unknown modules, or above 2 GB.
    RAISES (OSError): If it cannot be written, for example on a full disk.
    """
    target = to_path(path)
    if target.suffix.lower() != ONNX_SUFFIX:
        raise ValueError(Errors.EL354.format(path=target, format="onnx", reason=f"it does not end in {ONNX_SUFFIX}"))
    if target.exists() and (not force or not target.is_file()):
        raise ValueError(Errors.EL025.format(path=target, kind="file" if target.is_file() else "folder"))
    content = _to_onnx(bilm).SerializeToString()
    try:
        with atomic_file(target) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise not_saved(path, error) from error


@isolated
def _to_onnx(bilm: BiLM) -> Any:
    """The inference graph of a biLM, an onnx.ModelProto. ValueError as `export_onnx`."""
    require_package(has_onnx, "Exporting to ONNX", "onnx", '`pip install "spacy-elmo[onnx]"`, or `pip install onnx`')
    problem = find_onnx_problem(bilm)
    if bilm.precision != "float32":
        problem = f'its precision is {bilm.precision}, should be float32: call `bilm.set_precision("float32")` first'
    if problem:
        raise ValueError(Errors.EL352.format(reason=problem))
    from onnx import helper

    graph, arrays = OnnxGraph("elmo"), Arrays(bilm)
    _add_all(graph, bilm, arrays)
    _check_complete(graph, bilm, arrays)
    model = helper.make_model(
        graph.build(),
        producer_name=__title__,
        producer_version=__version__,
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
        doc_string=str(bilm.meta.get("description", "")),
    )
    helper.set_model_props(model, describe_graph(bilm))
    return model


def describe_graph(bilm: BiLM) -> Dict[str, str]:
    """Metadata of the file: sizes, input, and name, language, licence and source if known."""
    config, characters = bilm.config, _characters_of(bilm)
    record = {
        "n_layers": config.n_layers,
        "width": config.output_width,
        "input": "words" if characters is None else "characters",
        "n_characters": 0 if characters is None else characters.n_characters,
        "max_characters": 0 if characters is None else characters.max_characters,
        "vocabulary": "none" if characters is not None or bilm.vocabulary is None else bilm.vocabulary.words,
        **{key: bilm.meta[key] for key in ("name", "lang", "license", "source") if bilm.meta.get(key)},
    }
    texts = bilm.meta.get("corpus") or list_training_texts(bilm.meta)
    if "source" not in record and texts:
        record["source"] = texts
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in record.items()}


def _add_all(graph: OnnxGraph, bilm: BiLM, arrays: Arrays) -> None:
    config, characters = bilm.config, _characters_of(bilm)
    if characters is not None:
        raw_ids = graph.input("char_ids", INT64, ["batch", "tokens", characters.max_characters])
    else:
        raw_ids = graph.input("word_ids", INT64, ["batch", "tokens"])
    lengths = graph.input("lengths", INT64, ["batch"])
    sizes = split_shape(graph, raw_ids, 2)
    # Several operators of runtimes raise for arrays without elements: a row and a column of padding are added.
    zero, one = graph.integers(0), graph.integers(1)
    n_rows, n_columns = (graph.add("Where", graph.add("Equal", size, zero), one, zero) for size in sizes)
    ends = [n_rows, n_columns, zero][: 2 if characters is None else 3]
    ids = graph.add("Pad", raw_ids, graph.add("Concat", *[zero] * len(ends), *ends, axis=0))
    lengths = graph.add("Pad", lengths, graph.add("Concat", zero, n_rows, axis=0))
    if characters is not None:
        vectors = add_characters(graph, config, arrays, ids)  # (B, S, P)
    else:
        words = bilm.token_embeddings
        table = arrays.take("word_embedding") if words is None else words.detach().cpu().numpy()
        vectors = graph.add("Gather", graph.constant(table), ids, axis=0)
    if config.encoder == "transformer":
        layers = add_transformer_layers(graph, config, arrays, _boundary_vectors(bilm), vectors, lengths)
    else:
        layers = add_lstm_layers(graph, config, arrays, start_states(bilm), vectors, lengths)  # (L+1, B, S, D)
    _, n_steps = split_shape(graph, ids, 2)
    is_word = graph.add("Less", add_range(graph, n_steps), graph.add("Unsqueeze", lengths, graph.integers(1)))  # (B, S)
    mask = graph.add("Unsqueeze", is_word, graph.integers(2))
    layers = graph.add("Where", mask, layers, graph.constant(0.0))
    raw_sizes = graph.add("Concat", *sizes, axis=0)
    layers = graph.add("Slice", layers, graph.integers(0, 0), raw_sizes, graph.integers(1, 2))
    graph.output("layers", layers, FLOAT, [config.n_layers + 1, "batch", "tokens", config.output_width])


@isolated
@torch.no_grad()
def start_states(bilm: BiLM) -> List[StartState]:
    """State of each layer after BOS (forward) and EOS (backward), from the zero state."""
    network, device = bilm.network, bilm.device
    index = torch.arange(bilm.config.n_directions, device=device).view(-1, 1, 1)  # (d, 1, 1)
    _, state = network(_encode_boundaries(bilm), index, network.zero_state(1))
    return [StartState(h[:, 0].cpu().numpy(), c[:, 0].cpu().numpy()) for h, c in state.layers]


@isolated
@torch.no_grad()
def _boundary_vectors(bilm: BiLM) -> NDArray[Any]:
    """Shape (2, P), layer 0 of BOS and EOS in one direction."""
    return _encode_boundaries(bilm).cpu().numpy()


def _encode_boundaries(bilm: BiLM) -> Tensor:
    characters = _characters_of(bilm)
    if characters is not None:
        ids, _ = Utf8Codec(characters.max_characters).encode(BOUNDARIES)
        return bilm.network.word_vectors(torch.from_numpy(ids).to(bilm.device))
    table = bilm.token_embeddings if bilm.token_embeddings is not None else bilm.network.word_embedding
    rows = torch.from_numpy(bilm.vocabulary.ids(BOUNDARIES))  # type: ignore[union-attr]  # a table has words
    return table[rows.to(bilm.device)]  # type: ignore[index]  # the config has characters or a table


def _characters_of(bilm: BiLM) -> Any:
    """The config of the character CNN; None if the biLM looks words up in a table."""
    return None if bilm.token_embeddings is not None else bilm.config.char_cnn


def find_onnx_problem(bilm: BiLM) -> Optional[str]:
    """Why a biLM cannot be written as ONNX in float32, by encoder, input and size; None if it can. Whether the package
    onnx is installed does not matter. No array is copied.
    """
    if bilm.config.encoder not in EXPORTED_ENCODERS:
        return f"its encoder is '{bilm.config.encoder}', should be {' or '.join(map(repr, EXPORTED_ENCODERS))}"
    if bilm.config.token_embedder is not None:
        return "it reads words and characters by tables of its own"
    return _find_excess(_count_bytes(bilm))


def _count_bytes(bilm: BiLM) -> int:
    """Bytes of the parameters in float32, without the constants of the graph itself (some kB)."""
    parameters = list(bilm.network.named_parameters())
    if bilm.token_embeddings is not None:
        parameters = [item for item in parameters if not item[0].startswith(REPLACED_BY_TABLE)]
        return FLOAT_BYTES * (sum(tensor.numel() for _, tensor in parameters) + bilm.token_embeddings.numel())
    return FLOAT_BYTES * sum(tensor.numel() for _, tensor in parameters)


def _find_excess(n_bytes: int) -> Optional[str]:
    excess = f"its arrays have {n_bytes:,} bytes, but one ONNX file holds at most {MAX_GRAPH_BYTES:,}"
    return excess if n_bytes > MAX_GRAPH_BYTES else None


def _check_complete(graph: OnnxGraph, bilm: BiLM, arrays: Arrays) -> None:
    """Modules that this version cannot express would change the vectors."""
    is_replaced = bilm.token_embeddings is not None
    unused = [name for name in arrays.unused() if not (is_replaced and name.startswith(REPLACED_BY_TABLE))]
    problem = f"it has parameters without ONNX form ({', '.join(unused)})" if unused else _find_excess(graph.n_bytes)
    if problem:
        raise ValueError(Errors.EL352.format(reason=problem))
