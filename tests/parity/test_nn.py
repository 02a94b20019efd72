"""The PyTorch modules give the arrays computed by AllenNLP's `Elmo` and bilm-tf's `weight_layers`."""

import numpy as np
import pytest
import torch
from parity.cases import CASES, MADE_CASES, NORMS, Case, join, limit_of

from spacy_elmo.nn import Elmo, ScalarMix, batch_to_ids

WITH_MIXES = [name for name in CASES if name not in MADE_CASES]


@pytest.mark.parametrize("name", WITH_MIXES)
def test_module_gives_the_mixes_of_the_reference_programs(name, shared_data, tmp_path):
    case = Case(shared_data.parent, name, tmp_path)
    limit = limit_of(case.bilm.config.n_layers)
    for array in (array for array in case.truth if "_mix_" in array and "_mask" not in array):
        for given in ("words", "ids"):
            if given == "ids" and case.bilm.config.char_cnn is None:
                continue
            found, mask = _run(case, array, given)
            wanted = case.truth[array]
            assert found.shape == wanted.shape
            assert np.abs(found - wanted)[mask].max() <= limit, (array, given)


def _run(case, array, given):
    """Representations and mask for the settings that the name of an array says."""
    facts, n_layers = case.facts["mix"], case.bilm.config.n_layers + 1
    is_default, is_top = array.endswith("default"), array.endswith("top")
    weights = [-1e4] * (n_layers - 1) + [0.0] if is_top else facts["weights"]
    elmo = Elmo(
        case.bilm,
        dropout=0.0,
        boundaries=array.endswith("marks1"),
        layer_norm=NORMS[array.split("_mix_")[0]] if "norm1" in array else None,
        initial_weights=None if is_default else weights,
        initial_gamma=1.0 if is_default else facts["gamma"],
    )
    batch = case._texts_of(facts["batch"])
    width = 0 if given == "words" else case.bilm.config.char_cnn.max_characters
    with torch.no_grad():
        output = elmo(batch if given == "words" else batch_to_ids(batch, width))
    return output.representations[0].numpy(), output.mask.numpy()


def test_scalar_mix_gives_what_allennlp_gives_for_packed_layers(shared_data, tmp_path):
    case = Case(shared_data.parent, "fixture", tmp_path)
    facts, batch = case.facts["mix"], case._texts_of(case.facts["mix"]["batch"])
    mix = ScalarMix(3, initial_weights=facts["weights"], initial_gamma=facts["gamma"])
    mixed = mix(torch.from_numpy(join(case.bilm.embed(batch)))).detach().numpy()
    wanted = case.truth["allennlp_mix_norm0_marks0"]
    rows = np.concatenate([row[: len(words)] for row, words in zip(wanted, batch)])
    assert np.abs(mixed - rows).max() <= limit_of(2)
