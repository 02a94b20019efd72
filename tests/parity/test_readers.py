"""The stored vectors and losses once more: the weights out of other files, computed by other code."""

import json

import h5py
import numpy as np
import pytest
import torch
from export.running import needs_onnx, open_graph, run_in_batches
from parity.cases import (
    CASES,
    LIMIT,
    LM_CASES,
    MADE_CASES,
    SLOW_CASES,
    Case,
    join,
    largest_difference,
    limit_of,
    lm_differences,
    read_json,
)
from reference.allennlp_state import elmo_state, make_config, write_archive
from reference.seeded_weights import read_arrays
from reference.tensorflow_files import write_checkpoint
from typer.testing import CliRunner

from spacy_elmo import load_bilm, load_mixes
from spacy_elmo.cli._app import app
from spacy_elmo.export import export_onnx
from spacy_elmo.nn import Elmo

STORED_CASES = [name for name in CASES if name not in MADE_CASES]
# Those that AllenNLP can have; it ran on all of them.
ARCHIVE_CASES = ("fixture", "tiny-1layer", "tiny-2layer", "tiny-3layer-tanh", "tiny-n261", "tiny-noclip")
ARCHIVE_CASES += ("tiny-nohighway", "tiny-odd-4layer", "tiny-smallclip")
OPTIONS_MEMBER = "fta/model.text_field_embedder.token_embedders.elmo.options_file"


def archive_of(case, tmp_path, **settings):
    options = json.loads(case.options.read_text())
    mixes = [(case.facts["mix"]["weights"], case.facts["mix"]["gamma"])] if "mix" in case.facts else []
    state = elmo_state(read_arrays(case.weights), options, mixes=mixes)
    members = {OPTIONS_MEMBER: json.dumps(options).encode()}
    return write_archive(tmp_path / "model.tar.gz", state, make_config(**settings), members)


def by_checkpoint(case, sentences, tmp_path):
    folder = write_checkpoint(tmp_path / "tf", read_json(case.options), read_arrays(case.weights))
    bilm = load_bilm(folder)
    assert bilm.meta["source_format"] == "tf-checkpoint"
    return join(bilm.embed(sentences))


def by_onnx(case, sentences, tmp_path):
    needs_onnx()
    export_onnx(case.bilm, tmp_path / "elmo.onnx")
    return join(run_in_batches(open_graph(tmp_path / "elmo.onnx"), case.bilm, sentences))


def by_module(trainable):
    def encode(case, sentences, tmp_path):
        layers, mask = Elmo(case.bilm, trainable=trainable).encode(sentences)
        return layers.detach().numpy()[:, mask.numpy()]

    return encode


WAYS = {
    "TensorFlow checkpoint": (by_checkpoint, STORED_CASES),
    "ONNX": (by_onnx, CASES),
    "nn.Elmo": (by_module(False), STORED_CASES),
    "nn.Elmo, trained": (by_module(True), STORED_CASES),
}
PAIRS = [
    pytest.param(way, name, marks=[pytest.mark.slow] * (name in SLOW_CASES))
    for way, (_, names) in WAYS.items()
    for name in names
]


@pytest.mark.parametrize("way, name", PAIRS)
def test_vectors(way, name, shared_data, tmp_path):
    case = Case(shared_data.parent, name, tmp_path)
    found = WAYS[way][0](case, case._texts_of(case.facts["sentences"]), tmp_path)
    assert largest_difference(found, case.truth["stateless"]) <= limit_of(case.bilm.config.n_layers)


@pytest.mark.parametrize("name", LM_CASES)
def test_language_models(name, shared_data, tmp_path):
    """Perplexities out of a checkpoint, and layers in ONNX, also forward only, and with words as input."""
    root = shared_data / "elmo-groundtruth" / "lm"
    options, arrays = read_json(root / name / "options.json"), read_arrays(root / name / "weights.hdf5")
    words = (root / "vocab.txt").read_text(encoding="utf8").splitlines()
    bilm = load_bilm(write_checkpoint(tmp_path / "tf", options, arrays, words, accumulators=arrays))
    assert bilm.meta["source_format"] == "tf-checkpoint"
    differences = dict(lm_differences(shared_data.parent, name, bilm))
    assert not {array: value for array, value in differences.items() if value > LIMIT}
    needs_onnx()
    export_onnx(bilm, tmp_path / "elmo.onnx")
    sentences = [line.split() for line in (root / "text.txt").read_text(encoding="utf8").splitlines()]
    found = join(run_in_batches(open_graph(tmp_path / "elmo.onnx"), bilm, sentences))
    assert largest_difference(found, join(bilm.embed(sentences))) <= LIMIT


# Archives of AllenNLP


@pytest.mark.parametrize("name", ARCHIVE_CASES)
def test_archive_gives_the_ground_truth(name, shared_data, tmp_path):
    case = Case(shared_data.parent, name, tmp_path)
    case.bilm = load_bilm(archive_of(case, tmp_path))
    limit = limit_of(case.bilm.config.n_layers)
    assert not {array: value for array, value in case.differences() if value > limit}


@pytest.mark.parametrize("norm, marks", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_module_from_an_archive_gives_allennlps_representations(norm, marks, shared_data, tmp_path):
    case = Case(shared_data.parent, "tiny-2layer", tmp_path)
    path = archive_of(case, tmp_path, do_layer_norm=bool(norm))
    module = Elmo.from_allennlp(path, boundaries=bool(marks)).eval()
    batch = case._texts_of(case.facts["mix"]["batch"])
    with torch.no_grad():
        (found,), mask = module(batch)
    lengths = [len(words) + 2 * marks for words in batch]
    both = (found.numpy(), case.truth[f"allennlp_mix_norm{norm}_marks{marks}"])
    rows = [np.concatenate([row[:n] for row, n in zip(array, lengths)]) for array in both]
    assert mask.sum() == sum(lengths)
    assert largest_difference(*rows) <= limit_of(2)


# The test data of AllenNLP


def test_an_archive_of_the_fixture_carries_the_state(shared_data, tmp_path):
    folder = shared_data / "elmo-fixtures" / "allennlp"
    options = json.loads((folder / "options.json").read_text())
    state = elmo_state(read_arrays(folder / "lm_weights.hdf5"), options, mixes=())
    path = write_archive(tmp_path / "model.tar.gz", state, make_config(options_file=options))
    bilm, columns = load_bilm(path), [[text.split() for text in column] for column in _texts(folder)]
    carried = None
    for i, batch in enumerate(zip(*columns)):
        vectors, carried = bilm.embed(list(batch), state=carried, return_state=True)
        for k, layers in enumerate(vectors):
            assert largest_difference(layers[2], _stored(folder, k, i)) <= LIMIT
    assert load_mixes(path) == []


def test_the_command_embed_writes_its_top_layer(shared_data, tmp_path):
    """The first text of each row of the batch: later ones have the state of the texts before them there."""
    folder = shared_data / "elmo-fixtures" / "allennlp"
    texts = [column[0] for column in _texts(folder)]
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf8")
    paths = (folder / "lm_weights.hdf5", tmp_path / "in.txt", tmp_path / "out.hdf5")
    options = ("--store", "top", "--options", folder / "options.json")
    assert CliRunner().invoke(app, ["embed", *map(str, (*paths, *options))]).exit_code == 0
    with h5py.File(tmp_path / "out.hdf5", "r") as found:
        assert json.loads(found["sentence_to_index"][0]) == {text: str(i) for i, text in enumerate(texts)}
        for i in range(len(texts)):
            assert largest_difference(found[str(i)][()], _stored(folder, i, 0)) <= LIMIT


def _texts(folder):
    return read_json(folder / "sentences.json")


def _stored(folder, k, i):
    """(T, D): the top layer of batch i, row k."""
    with h5py.File(folder / f"lm_embeddings_{k}.hdf5", "r") as file:
        return np.concatenate(list(file[str(i)][()]), axis=1)
