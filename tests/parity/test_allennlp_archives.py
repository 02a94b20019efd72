"""Archives made of the ground truth's weights: vectors of AllenNLP itself, through our reader."""

import json

import numpy as np
import pytest
import torch
from parity.cases import Case, join, limit_of
from reference.allennlp_state import elmo_state, make_config, write_archive
from reference.seeded_weights import read_arrays

from spacy_elmo import load_bilm, load_mixes
from spacy_elmo.nn import Elmo

# Those that AllenNLP can have; it ran on all of them.
CASES = ("fixture", "tiny-1layer", "tiny-2layer", "tiny-3layer-tanh", "tiny-n261", "tiny-noclip", "tiny-nohighway")
CASES += ("tiny-odd-4layer", "tiny-smallclip")
OPTIONS_MEMBER = "fta/model.text_field_embedder.token_embedders.elmo.options_file"


def archive_of(case, tmp_path, **settings):
    options = json.loads(case.options.read_text())
    mixes = [(case.facts["mix"]["weights"], case.facts["mix"]["gamma"])] if "mix" in case.facts else []
    state = elmo_state(read_arrays(case.weights), options, mixes=mixes)
    members = {OPTIONS_MEMBER: json.dumps(options).encode()}
    return write_archive(tmp_path / "model.tar.gz", state, make_config(**settings), members)


@pytest.mark.parametrize("name", CASES)
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
    batch = [case.texts[i] for i in case.facts["mix"]["batch"]]
    with torch.no_grad():
        (found,), mask = module(batch)
    lengths = [len(words) + 2 * marks for words in batch]
    both = (found.numpy(), case.truth[f"allennlp_mix_norm{norm}_marks{marks}"])
    rows = [np.concatenate([row[:n] for row, n in zip(array, lengths)]) for array in both]
    assert mask.sum() == sum(lengths)
    assert np.abs(rows[0] - rows[1]).max() <= limit_of(2)


def test_expected_embeddings_of_allennlps_fixture(shared_data, tmp_path):
    """State carried from batch to batch: what its own tests compare."""
    folder = shared_data / "elmo-fixtures" / "allennlp"
    options = json.loads((folder / "options.json").read_text())
    state = elmo_state(read_arrays(folder / "lm_weights.hdf5"), options, mixes=())
    path = write_archive(tmp_path / "model.tar.gz", state, make_config(options_file=options))
    bilm, rows = load_bilm(path), json.loads((folder / "sentences.json").read_text())
    wanted = [read_arrays(folder / f"lm_embeddings_{k}.hdf5") for k in range(3)]
    carried, differences = None, []
    for i in range(len(rows[0])):
        batch = [rows[k][i].split() if isinstance(rows[k][i], str) else rows[k][i] for k in range(3)]
        vectors, carried = bilm.embed(batch, state=carried, return_state=True)
        differences += [np.abs(vectors[k][2] - np.concatenate(wanted[k][str(i)], axis=-1)).max() for k in range(3)]
    assert len(differences) == 30 and max(differences) <= 2e-5
    assert load_mixes(path) == []
    assert join(vectors).shape[0] == 3
