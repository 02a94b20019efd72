"""The module `Elmo`: words and ids, padding, gradients, devices and types, errors."""

import copy
import gc
import pickle
from pathlib import Path

import pytest
import torch
from inference.forcing import needs_kernel
from nn.tiny import SENTENCES, WIDTH, make_bilm

from spacy_elmo import BiLM, BiLMConfig
from spacy_elmo.bilm.network import BiLMNetwork
from spacy_elmo.nn import Elmo, ScalarMix, batch_to_ids
from spacy_elmo.text.words import Vocabulary

LIMIT = 1e-5


def make_elmo(n=1, **settings):
    return Elmo(make_bilm(), n, **{"dropout": 0.0, **settings})


def assert_close(found, wanted):
    torch.testing.assert_close(found, wanted, atol=LIMIT, rtol=0.0)


@pytest.mark.parametrize("state, trainable", [("reset", False), ("steady", False), ("reset", True)])
@pytest.mark.parametrize("boundaries", [False, True])
@pytest.mark.parametrize("to_inputs", [list, batch_to_ids])
def test_representations_are_the_mean_of_what_the_bilm_gives(state, trainable, boundaries, to_inputs):
    elmo = make_elmo(2, state=state, trainable=trainable, boundaries=boundaries)
    output = elmo(to_inputs(SENTENCES))
    longest = 6 + 2 * boundaries
    assert len(output.representations) == 2 and output.mask.shape == (4, longest)
    for rows in output.representations:
        assert rows.shape == (4, longest, WIDTH) and not rows[~output.mask].any()
        for row, mask, wanted in zip(rows, output.mask, elmo.bilm.embed(SENTENCES, state=state, boundaries=boundaries)):
            assert_close(row[mask], torch.from_numpy(wanted).mean(dim=0))


@pytest.mark.parametrize("settings", [{}, {"trainable": True}, {"layer_norm": "token"}])
def test_a_sentence_does_not_depend_on_its_batch(settings):
    elmo = make_elmo(**settings)
    together = elmo(SENTENCES)
    for i, words in enumerate(SENTENCES):
        alone = elmo([words])
        assert_close(alone.representations[0][0], together.representations[0][i, : len(words)])


@pytest.mark.parametrize("trainable", [True, False])
def test_another_trainable_on_a_shared_bilm_is_the_only_one_that_is_told(trainable):
    bilm = make_bilm()
    with pytest.warns(UserWarning, match=f"WL141.*2 other Elmo.*trainable = {not trainable}") as told:
        modules = [Elmo(bilm, trainable=trainable), Elmo(bilm, trainable=trainable)]
        copied = Elmo(copy.deepcopy(bilm), trainable=not trainable)
        assert copied.encoder.is_trained is not trainable
        assert all(module.encoder.is_trained is trainable for module in modules)
        assert pickle.loads(pickle.dumps(modules[0])).encoder.is_trained is trainable
        Elmo(bilm, trainable=not trainable)
        assert modules[0].encoder.is_trained is not trainable
        del modules
        gc.collect()
        Elmo(bilm, trainable=trainable)
    assert len(told) == 1


def test_dropout_in_training_only():
    elmo = make_elmo(dropout=0.5)
    dropped = elmo(SENTENCES)
    rows = dropped.representations[0][dropped.mask]
    assert 0.3 < (rows == 0).float().mean() < 0.7
    elmo.eval()
    assert torch.equal(elmo(SENTENCES).representations[0], elmo(SENTENCES).representations[0])


def test_norm_of_allennlp_counts_boundaries_in_every_way_of_reading():
    frozen, trained = (make_elmo(layer_norm="allennlp", trainable=is_on)(SENTENCES) for is_on in (False, True))
    kept = make_elmo(layer_norm="allennlp", boundaries=True)(SENTENCES)
    assert frozen.mask.sum(dim=1).tolist() == [6, 0, 1, 4]
    assert_close(frozen.representations[0], trained.representations[0])
    for row, mask, with_boundaries in zip(frozen.representations[0], frozen.mask, kept.representations[0]):
        n = int(mask.sum())
        assert_close(row[:n], with_boundaries[1 : n + 1])
        assert not row[n:].any()


@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda elmo: pickle.loads(pickle.dumps(elmo))])
def test_a_copy_has_weights_of_its_own(copy_of):
    elmo = make_elmo(2)
    before = elmo(SENTENCES).representations[0]
    copied = copy_of(elmo)
    assert_close(copied(SENTENCES).representations[0], before)
    assert copied.bilm.network is copied.encoder.network
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.mul_(0.5)
    assert_close(elmo(SENTENCES).representations[0], before)
    assert (copied(SENTENCES).representations[0] - before).abs().max() > 1e-3


def test_half_changes_the_mixes_only_and_says_so():
    elmo = make_elmo()
    wanted = elmo(SENTENCES).representations[0]
    with pytest.warns(UserWarning, match="WL140.*become float16"):
        elmo.half()
    found = elmo(SENTENCES).representations[0]
    assert found.dtype == torch.float16
    assert all(parameter.dtype == torch.float32 for parameter in elmo.encoder.parameters())
    torch.testing.assert_close(found.float(), wanted, atol=5e-3, rtol=0.0)
    elmo.float()
    assert elmo(SENTENCES).representations[0].dtype == torch.float32


@pytest.mark.gpu
def test_module_moves_to_a_gpu():
    elmo = make_elmo(2)
    wanted = elmo(SENTENCES).representations[0]
    output = elmo.cuda()(SENTENCES)
    assert output.mask.is_cuda and elmo.bilm.device.type == "cuda"
    torch.testing.assert_close(output.representations[0].cpu(), wanted, atol=2e-5, rtol=0.0)
    ids = elmo(batch_to_ids(SENTENCES).cuda())
    torch.testing.assert_close(ids.representations[0].cpu(), wanted, atol=2e-5, rtol=0.0)


def test_a_bilm_of_whole_words_reads_token_lists():
    network = BiLMNetwork(BiLMConfig(n_words=4, cell_width=8, projection_width=4))
    elmo = Elmo(BiLM(network, vocabulary=Vocabulary(["<S>", "</S>", "<UNK>", "bank"])))
    assert elmo([["bank", "river"]]).representations[0].shape == (1, 2, 8)
    with pytest.raises(ValueError, match="EL017.*whole words"):
        elmo(batch_to_ids(SENTENCES))


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"n_mixes": 0}, "EL060.*n_mixes is 0"),
        ({"dropout": 1.0, "state": "carry"}, "EL060.*dropout is 1.0.*state is 'carry'"),
        ({"trainable": True, "state": "steady"}, "EL060.*should be 'reset' while the biLM is trained"),
        ({"initial_weights": [0.0, 1.0]}, "EL060.*initial_weights has 2 weights, should have 3"),
        ({"batch_tokens": "9"}, "EL060.*batch_tokens is '9', should be a valid integer"),
        ({"boundaries": None, "store_bilm": "no"}, "EL060.*boundaries is None.*store_bilm is 'no', should be"),
    ],
)
def test_invalid_settings_are_an_error(settings, message):
    with pytest.raises(ValueError, match=message):
        Elmo(make_bilm(), **settings)


MIXED, MASK = torch.zeros(3, 4, 6, 5), torch.ones(4, 6, dtype=torch.bool)


@pytest.mark.parametrize(
    "use, message",
    [
        pytest.param(
            lambda: Elmo(make_bilm().set_precision("int8"), trainable=True),
            "EL060.*precision of the biLM is 'int8'",
            marks=needs_kernel,
        ),
        (lambda: make_elmo(state="steady").requires_grad_(True)(SENTENCES), "'steady'"),
        *(
            (lambda t=trainable: Elmo(make_bilm(), trainable=t).to("meta")(SENTENCES), "device 'meta'.*Load it again")
            for trainable in (False, True)
        ),
        *(
            (lambda name=name: Elmo.from_allennlp("nowhere", **{name: 1}), f"EL060.*{name} cannot be set")
            for name in ("n_mixes", "initial_weights", "initial_gamma", "layer_norm")
        ),
        (lambda: make_elmo().mix(MIXED, MASK), r"layers of width 16, but found 5 \(shape \(3, 4, 6, 5\)\)"),
        (lambda: make_elmo().mix(list(MIXED), MASK), "layers of width 16, but found 5"),
        *(
            (lambda s=s: make_elmo(**s).mix(make_elmo(**s).encode(SENTENCES)[0], None), "type NoneType.*bool")
            for s in ({}, {"boundaries": True}, {"layer_norm": "allennlp"})
        ),
    ],
)
def test_what_does_not_fit_is_an_error(use, message):
    with pytest.raises(ValueError, match=message):
        use()


@pytest.mark.parametrize("trainable", [False, True])
def test_gradients_of_gradients_pass_through_a_frozen_bilm_only(trainable):
    elmo = make_elmo(trainable=trainable)
    loss = elmo(SENTENCES).representations[0].square().sum()
    parameters = [parameter for parameter in elmo.parameters() if parameter.requires_grad]
    squares = sum(
        d_parameter.square().sum() for d_parameter in torch.autograd.grad(loss, parameters, create_graph=True)
    )
    if trainable:
        with pytest.raises(RuntimeError, match="once_differentiable"):
            squares.backward()
    else:
        squares.backward()
        assert all(parameter.grad.abs().sum() > 0 for parameter in parameters)


@pytest.mark.parametrize("layer_norm", [None, "token", "bilm-tf", "allennlp"])
@pytest.mark.parametrize("boundaries", [False, True])
@pytest.mark.parametrize("trainable", [False, True])
def test_a_mix_without_padding_is_the_mix_of_padded_layers(layer_norm, boundaries, trainable):
    settings = {"layer_norm": layer_norm, "boundaries": boundaries, "trainable": trainable}
    elmo = make_elmo(2, initial_weights=[0.3, -1.0, 2.0], **settings)
    (first, _), mask = elmo(SENTENCES)
    (second, _), other = elmo.mix(*elmo.encode(SENTENCES))
    assert_close(first, second)
    assert torch.equal(mask, other)
    grads = [torch.autograd.grad(rows.square().sum(), elmo.mixes[0].weights)[0] for rows in (first, second)]
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)


def test_modules_and_hooks_in_place_of_a_mix_see_padded_layers():
    elmo, seen = make_elmo(2), []
    elmo.mixes[0].register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    wanted = elmo(SENTENCES).representations[0]
    assert seen == [(4, 6, WIDTH)]

    class Top(torch.nn.Module):
        def forward(self, layers, mask):
            return layers[-1] * mask.unsqueeze(-1)

    elmo.mixes[1] = Top()
    found = elmo(SENTENCES).representations
    assert_close(found[0], wanted)
    assert_close(found[1], elmo.encode(SENTENCES)[0][-1])


@pytest.mark.parametrize(
    "use",
    [
        lambda: Elmo("elmo/options.json", "elmo/weights.hdf5", 2, dropout=0),
        lambda: Elmo("elmo/options.json", Path("elmo/weights.hdf5")),
        lambda: Elmo(options_file="options.json", weight_file="weights.hdf5", num_output_representations=1),
        lambda: Elmo(make_bilm(), 1, requires_grad=True),
        lambda: Elmo(make_bilm(), 1, scalar_mix_parameters=[0.0] * 3),
        lambda: Elmo(make_bilm())(SENTENCES)["elmo_representations"],
        lambda: Elmo(make_bilm())(SENTENCES)["mask"],
        lambda: Elmo(make_bilm()).get_output_dim(),
        lambda: Elmo(make_bilm()).scalar_mix_0,
        lambda: ScalarMix(3, do_layer_norm=True),
    ],
)
def test_code_for_allennlp_is_led_to_the_module_that_runs_it(use):
    with pytest.raises((TypeError, AttributeError), match=r"from spacy_elmo\.compat\.allennlp import (Elmo|ScalarMix)"):
        use()


def test_the_output_is_a_tuple_with_names():
    with torch.no_grad():
        output = Elmo(make_bilm(), 2, dropout=0.0)(SENTENCES)
    for again in (output, copy.deepcopy(output), pickle.loads(pickle.dumps(output))):
        (first, second), mask = again
        assert again[0] is again.representations and again[-1] is mask is again.mask and len(again[:2]) == 2
        assert first.shape == second.shape and not hasattr(again, "to")
    assert not hasattr(Elmo(make_bilm()), "weights")
