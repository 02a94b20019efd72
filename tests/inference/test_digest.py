"""The digest of a biLM changes with each of its weights, and is the same on each device and in each precision."""

import copy
import pickle
from typing import Any, Callable, Dict

import pytest
import torch
from nn.tiny import SIZES, TRANSFORMER
from reference.seeded_manylangs import make_architecture, write_manylangs
from torch import Tensor

from spacy_elmo import BiLM, load_bilm, save_bilm
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.network import BiLMNetwork
from spacy_elmo.inference import products
from spacy_elmo.text.words import Vocabulary

CONFIGS: Dict[str, Dict[str, Any]] = {
    "lstm": SIZES,
    "highways between layers": {**SIZES, "has_skip": False, "highway_between": True},
    "words, no projection": {**SIZES, "char_cnn": None, "n_words": 5, "cell_width": 8},
    "forward": {**SIZES, "directions": "forward"},
    "transformer": TRANSFORMER,
}


def make_bilm(kind: str = "lstm", **changes: Any) -> BiLM:
    """No weight is zero, and layers have different weights."""
    generator = torch.Generator().manual_seed(1)
    network = BiLMNetwork(BiLMConfig.from_dict({**CONFIGS[kind], **changes}))
    for parameter in network.parameters():
        torch.nn.init.uniform_(parameter, -0.5, 0.5, generator=generator)
    return BiLM(network, vocabulary=Vocabulary(["<S>", "</S>", "<UNK>", "the", "bank"]))


def names_of(kind: str) -> Any:
    return [name for name, _ in make_bilm(kind).network.named_parameters()]


def change_last(weight: Tensor) -> Tensor:
    changed = weight.clone()
    changed.view(-1)[-1] += 0.001
    return changed


CHANGES: Dict[str, Callable[[Tensor], Tensor]] = {
    "scaled by 0.2": lambda weight: weight * 0.2,
    "scaled by 0.999": lambda weight: weight * 0.999,
    "small entries pruned": lambda weight: torch.where(weight.abs() < weight.abs().quantile(0.1), 0.0, weight),
    "zero": torch.zeros_like,
    "reversed": lambda weight: weight.flatten().flip(0).view_as(weight),
    "one entry": change_last,
    "rounded": lambda weight: weight.bfloat16().float(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", CONFIGS)
def test_a_change_of_any_weight_changes_the_digest(kind: str, change: str) -> None:
    bilm = make_bilm(kind)
    before, digests = bilm.digest, {bilm.digest}
    for parameter in bilm.network.parameters():
        original = parameter.detach().clone()
        with torch.no_grad():
            parameter.copy_(CHANGES[change](original))
            digests.add(bilm.digest)
            parameter.copy_(original)
        assert bilm.digest == before
    assert len(digests) == 1 + len(names_of(kind))


@pytest.mark.parametrize("kind", CONFIGS)
def test_swapped_weights_change_the_digest(kind: str) -> None:
    for name in names_of(kind):
        bilm = make_bilm(kind)
        before, parameters = bilm.digest, dict(bilm.network.named_parameters())
        weight = parameters[name]
        for other in parameters.values():
            if other is not weight and other.shape == weight.shape:  # such as the same matrix of another layer
                weight.data, other.data = other.data, weight.data
                assert bilm.digest != before
                weight.data, other.data = other.data, weight.data
        if weight.dim() == 3 and len(weight) == 2:
            with torch.no_grad():
                weight.copy_(weight.flip(0))  # directions
            assert bilm.digest != before


def test_the_softmax_and_meta_data_do_not_matter_and_settings_and_words_of_tables_do() -> None:
    bilm = make_bilm()
    before = bilm.digest
    bilm.head, bilm.vocabulary, bilm.meta = None, None, {"name": "other"}
    bilm.clear_caches()
    assert bilm.digest == before
    characters = {**SIZES["char_cnn"], "max_characters": 20}  # type: ignore[dict-item]  # a block
    for changes in ({"cell_clip": 1.0}, {"projection_clip": None}, {"has_skip": False}, {"char_cnn": characters}):
        assert make_bilm(**changes).digest != before
    heads = {**TRANSFORMER["transformer"], "n_heads": 4}  # type: ignore[dict-item]  # a block
    assert make_bilm("transformer", transformer=heads).digest != make_bilm("transformer").digest
    words = make_bilm("words, no projection")
    before, words.vocabulary = words.digest, Vocabulary(["<S>", "</S>", "<UNK>", "bank", "the"])
    words.clear_caches()
    assert words.digest != before
    table = torch.ones(5, 8)
    cached = BiLM(bilm.network, vocabulary=make_bilm().vocabulary, token_embeddings=table)
    before = cached.digest
    cached.token_embeddings = change_last(table)
    assert len({before, cached.digest, bilm.digest}) == 3


def test_symbols_of_manylangs_matter(tmp_path: Any) -> None:
    write_manylangs(tmp_path / "model", make_architecture())
    bilm = load_bilm(tmp_path / "model")
    before, lexicon = bilm.digest, bilm.lexicon
    assert lexicon is not None
    for name in ("characters", "words"):
        symbols = list(getattr(lexicon, name))
        symbols[-1], symbols[-2] = symbols[-2], symbols[-1]
        tables = {"characters": lexicon.characters, "words": lexicon.words, name: symbols}
        bilm.lexicon = type(lexicon)(**tables)
        bilm.clear_caches()
        assert bilm.digest != before


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_a_copy_in_reduced_precision_has_the_digest_until_its_weights_change(
    precision: str, kind: str, tmp_path: Any
) -> None:
    if not products.is_supported_on_cpu(precision):
        pytest.skip(f"this processor, or an installation without a compiler, does not compute in {precision}")
    before = make_bilm(kind).digest
    bilm = make_bilm(kind).set_precision(precision)
    other = make_bilm(kind)
    with torch.no_grad():
        next(parameter for name, parameter in other.network.named_parameters() if "weight" in name).mul_(0.5)
    assert other.set_precision(precision).digest != before  # also where rounding is coarser than the change
    copies = [bilm, copy.deepcopy(bilm), pickle.loads(pickle.dumps(bilm)), bilm.to("cpu")]
    for dtype in ("float32", "float16", "int8"):
        save_bilm(bilm, tmp_path / dtype, dtype=dtype)
        copies.append(load_bilm(tmp_path / dtype))
        copies.append(load_bilm(tmp_path / dtype, precision=precision))
    assert {one.digest for one in copies} == {before}
    again = bilm.set_precision("float32")  # with the rounded values
    assert again.digest == before
    with torch.no_grad():
        list(again.network.parameters())[-1].view(-1)[0] += 0.1
    assert again.digest != before
    assert {again.digest} == {again.set_precision(precision).digest, pickle.loads(pickle.dumps(again)).digest}


def test_changed_weights_of_a_rounded_file_have_a_digest_of_their_own(tmp_path: Any) -> None:
    """As files of other programs, of which no record says what they were."""
    bilm = make_bilm()
    save_bilm(bilm, tmp_path / "int8", dtype="int8")
    rounded = load_bilm(tmp_path / "int8")
    assert rounded.digest == bilm.digest and "rounded_copy" not in rounded.meta
    save_bilm(rounded, tmp_path / "again", format="bilm-tf")
    assert load_bilm(tmp_path / "again").digest == bilm.digest
    (tmp_path / "again" / "meta.json").unlink()
    alone = load_bilm(tmp_path / "again")
    assert alone.digest != bilm.digest and alone.rounded_copy is None
    for record in ([], {"original": 1, "rounded": bilm.digest}, {"original": bilm.digest, "rounded": "0" * 12}):
        (tmp_path / "int8" / "meta.json").write_text(f'{{"rounded_copy": {str(record)}}}'.replace("'", '"'))
        assert load_bilm(tmp_path / "int8").digest == alone.digest
