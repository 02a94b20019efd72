"""AllenNLP archives and state dicts: what is in them comes out; members that lead elsewhere are not read."""

import gzip
import io
import json
import lzma
import tarfile
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from reference.allennlp_state import GAMMA, WEIGHTS, elmo_state, make_config, task_state, to_bytes, write_archive
from reference.seeded_weights import SENTENCES, WORDS, make_arrays, make_options, make_softmax, write_model
from weights.same import assert_same

from spacy_elmo import BiLM, load_bilm, load_mixes, save_bilm
from spacy_elmo.weights.formats.allennlp import to_json
from spacy_elmo.weights.formats.allennlp_names import allennlp_datasets
from spacy_elmo.weights.meta import LoadedMix, mixes_from_meta
from spacy_elmo.weights.tensor_map import export_arrays, to_arrays

OPTIONS = make_options()
ARRAYS = make_arrays(OPTIONS)
OPTIONS_MEMBER = "fta/model.text_field_embedder.token_embedders.elmo.options_file"
MIX = LoadedMix(tuple(float(np.float32(weight)) for weight in WEIGHTS), float(np.float32(GAMMA)))


@pytest.fixture
def original(tmp_path):
    """The biLM of the files of bilm-tf, which have softmax and words."""
    folder = tmp_path / "original"
    return BiLM(load_bilm(write_model(folder, OPTIONS, {**ARRAYS, **make_softmax(OPTIONS)}, WORDS)).network)


def members(options=OPTIONS):
    return {OPTIONS_MEMBER: json.dumps(options).encode()}


def archive(tmp_path, options=OPTIONS, **settings):
    state = {**elmo_state(make_arrays(options), options), **task_state()}
    return write_archive(tmp_path / "model.tar.gz", state, members=members(options), **settings)


@pytest.mark.parametrize("mode, layer_norm", [("w:gz", None), ("w", "allennlp")])
def test_archive_has_the_bilm_and_its_mixes(mode, layer_norm, original, tmp_path):
    path = archive(tmp_path, mode=mode, config=make_config(do_layer_norm=layer_norm is not None))
    bilm = load_bilm(path)
    biases = [name for name in bilm.network.state_dict() if name.endswith(".bias") and name.startswith("encoder")]
    assert_same(bilm, original, limit=1e-6, but=biases)
    assert load_mixes(path) == [replace(MIX, layer_norm=layer_norm)]
    assert bilm.meta["source_format"] == "allennlp"


@pytest.mark.parametrize(
    "places, cell_clip",
    [
        ({"options_file": OPTIONS, "weight_file": ...}, 3.0),
        ({"options_file": "model.tar.gz!my/opts.json"}, 2.5),
        ({"options_file": "data/opts.json"}, 2.5),
        ({"options_file": "./my/opts.json"}, 2.5),
        ({"options_file": ..., "weight_file": ...}, 3.0),  # the models that AllenNLP itself takes
        ({"options_file": "https://x/elmo_2x1024_128_2048cnn_1xhighway_options.json"}, 3.0),
    ],
)
def test_options_are_inline_or_a_member_or_known(places, cell_clip, tmp_path):
    name = "opts.json" if places["options_file"] == "data/opts.json" else "my/opts.json"
    content = {name: json.dumps(make_options(lstm={"cell_clip": 2.5})).encode()}
    path = write_archive(tmp_path / "model.tar.gz", elmo_state(ARRAYS, OPTIONS), make_config(**places), content)
    assert load_bilm(path).config.cell_clip == cell_clip


def test_unknown_options_are_assumed_with_a_warning(original, tmp_path):
    path = write_archive(tmp_path / "model.tar.gz", elmo_state(ARRAYS, OPTIONS))
    with pytest.warns(UserWarning, match="WL310.*token_embedder_elmo.*cell_clip 3.0, proj_clip 3.0, relu.*`options`"):
        bilm = load_bilm(path)
    assert bilm.config == original.config
    options = tmp_path / "options.json"
    options.write_text(json.dumps(make_options(lstm={"cell_clip": 1.5})))
    assert load_bilm(options=options, weights=path).config.cell_clip == 1.5


@pytest.mark.parametrize("prefix, has_mix", [("", True), ("a.b.", True), (None, False)])
def test_bare_state_dict_with_options_beside_it(prefix, has_mix, original, tmp_path):
    state = elmo_state(ARRAYS, OPTIONS, prefix=prefix or "", mixes=[(WEIGHTS, GAMMA)] * has_mix)
    if prefix is None:  # of the biLM alone, and options under another name
        state = {name.removeprefix("_elmo_lstm."): state[name] for name in state}
    (tmp_path / "elmo.pt").write_bytes(to_bytes(state))
    (tmp_path / ("options.json" if has_mix else "config.json")).write_text(json.dumps(OPTIONS))
    assert_same(load_bilm(tmp_path / "elmo.pt"), original, limit=1e-6)
    assert load_mixes(tmp_path / "elmo.pt") == [MIX] * has_mix


def two_bilms():
    other = make_arrays(OPTIONS, seed=9)
    state = {**elmo_state(ARRAYS, OPTIONS, "a._elmo."), **elmo_state(other, OPTIONS, "b._elmo.", mixes=())}
    return state, other


def test_several_bilms_are_named_and_chosen(original, tmp_path):
    state, other = two_bilms()
    config = {"model": {"a": {"options_file": OPTIONS}}}
    path = write_archive(tmp_path / "model.tar.gz", state, config)
    with pytest.raises(ValueError, match=r"2 biLM.*: 'a\._elmo', 'b\._elmo'.*model.tar.gz#a\._elmo"):
        load_bilm(path)
    assert_same(load_bilm(f"{path}#a._elmo"), original, limit=1e-6)
    wanted = load_bilm(write_model(tmp_path / "other", OPTIONS, other))
    assert_same(load_bilm(f"{path}#b._elmo"), wanted, limit=1e-6)
    assert load_mixes(f"{path}#a._elmo") == [MIX] and load_mixes(f"{path}#b._elmo") == []
    with pytest.raises(ValueError, match=r"'a\._elmo', 'b\._elmo'; none has the name 'c'"):
        load_bilm(f"{path}#c")


def test_options_belong_to_the_token_embedder_of_the_same_name(tmp_path):
    prefixes = [f"text_field_embedder.token_embedder_{name}._elmo." for name in ("small", "large")]
    state = {**elmo_state(ARRAYS, OPTIONS, prefixes[0]), **elmo_state(ARRAYS, OPTIONS, prefixes[1])}
    options = {name: make_options(lstm={"cell_clip": clip}) for name, clip in (("small", 1), ("large", 2))}
    embedders = {name: {"options_file": found} for name, found in options.items()}
    config = {"model": {"text_field_embedder": {"token_embedders": embedders}}}
    path = write_archive(tmp_path / "model.tar.gz", state, config)
    clips = [load_bilm(f"{path}#{prefix.rstrip('.')}").config.cell_clip for prefix in prefixes]
    assert clips == [1, 2]


def test_several_mixes_keep_their_order(tmp_path):
    mixes = [((0.0, 1.0, k), k + 0.5) for k in range(12)]
    path = write_archive(tmp_path / "model.tar.gz", elmo_state(ARRAYS, OPTIONS, mixes=mixes), members=members())
    assert [(mix.weights, mix.gamma) for mix in load_mixes(path)] == mixes
    assert sum(load_mixes(path)[3].shares) == pytest.approx(1.0)


@pytest.mark.parametrize("trained, is_warned", [(False, False), (True, True)])
def test_cached_words(trained, is_warned, original, tmp_path):
    state = elmo_state(ARRAYS, OPTIONS)
    state["text_field_embedder.token_embedder_elmo._elmo._elmo_lstm._word_embedding.weight"] = torch.ones(7, 8)
    path = write_archive(tmp_path / "model.tar.gz", state, make_config(requires_grad=trained), members())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bilm = load_bilm(path)
    assert [str(item.message)[1:6] for item in caught] == ["WL312"] * is_warned
    assert_same(bilm, original, limit=1e-6)


def test_tensors_that_do_not_fit_are_all_named(tmp_path):
    state = elmo_state(ARRAYS, OPTIONS)
    names = list(state)
    del state[names[1]]
    state[names[4]] = torch.zeros(3)
    state[names[6]] = torch.full_like(state[names[6]], float("nan"))
    state[names[-1]] = torch.zeros(2)
    path = write_archive(tmp_path / "model.tar.gz", state, members=members())
    with pytest.raises(ValueError, match="(?s)EL026.*4 problem.*missing.*wrong shape.*not finite.*scalar_parameters.2"):
        load_bilm(path)


def test_options_without_skip_connections_are_refused(tmp_path):
    options = make_options(lstm={"use_skip_connections": False})
    path = write_archive(tmp_path / "model.tar.gz", elmo_state(ARRAYS, OPTIONS), members=members(options))
    with pytest.raises(ValueError, match="EL023.*use_skip_connections is false, but AllenNLP's ELMo always has"):
        load_bilm(path)


def test_other_state_dicts_say_what_is_missing(tmp_path):
    path = write_archive(tmp_path / "model.tar.gz", task_state())
    with pytest.raises(ValueError, match="_char_embedding_weights.*Pass an archive"):
        load_bilm(path)
    state = elmo_state(ARRAYS, OPTIONS)
    path = write_archive(path, {name: state[name] for name in state if "state_projection" not in name})
    with pytest.raises(ValueError, match="state_projection.weight is missing, should have 2 dimensions"):
        load_bilm(path)


def test_softmax_and_vocabulary_of_the_user(original, tmp_path):
    path = archive(tmp_path)
    folder = tmp_path / "original"
    bilm = load_bilm(path, softmax=folder / "weights.hdf5", vocab=folder / "vocab.txt")
    one, other = (model.perplexity(SENTENCES, batch_size=2).forward for model in (bilm, load_bilm(folder)))
    assert one == pytest.approx(other, rel=1e-5)
    with pytest.raises(ValueError, match="token_embeddings"):
        load_bilm(path, token_embeddings=tmp_path / "some.hdf5")
    with pytest.raises(ValueError, match="12 words"):
        (folder / "vocab.txt").write_text("\n".join(WORDS))
        load_bilm(path, softmax=write_softmax(tmp_path, 11), vocab=folder / "vocab.txt")


def write_softmax(tmp_path, n_words):
    return write_model(tmp_path / "softmax", {}, make_softmax(OPTIONS, n_words=n_words)) / "weights.hdf5"


def test_a_foreign_archive_is_equal_in_bits_after_a_native_folder(tmp_path):
    """Without its HDF5 file: AllenNLP's forget biases are sums with 1.0, which come out of the difference again."""
    state = elmo_state(ARRAYS, OPTIONS)
    save_bilm(load_bilm(write_archive(tmp_path / "model.tar.gz", state, members=members())), tmp_path / "native")
    bilm = load_bilm(tmp_path / "native")
    module = "text_field_embedder.token_embedder_elmo._elmo._elmo_lstm."
    arrays = export_arrays(allennlp_datasets(bilm.config), to_arrays(bilm.network))
    assert {module + name: array.tobytes() for name, array in arrays.items()} == {
        name: tensor.numpy().tobytes() for name, tensor in state.items() if name.startswith(module)
    }


@pytest.mark.parametrize(
    "records",
    [
        {"0": 1},
        [{"weights": [1, 2], "gamma": 1}],
        [{"weights": [0, 0, 0], "gamma": 1e30}],
        [{"weights": [0, 0, 0], "gamma": 1, "layer_norm": "other"}],
    ],
)
def test_mixes_in_meta_data_are_checked(records):
    assert mixes_from_meta({}, 2) == mixes_from_meta(None, 2) == ()
    with pytest.raises(ValueError, match="scalar_mixes.*3 numbers"):
        mixes_from_meta({"scalar_mixes": records}, 2)


# Archives that are damaged or hostile


SMALL = make_options(
    lstm={"dim": 4, "projection_dim": 3, "n_layers": 1}, char_cnn={"filters": [[1, 2]], "n_highway": 1}
)
SMALL_STATE = elmo_state(make_arrays(SMALL), SMALL, mixes=[((0, 1), 2)])
SMALL_CONFIG = make_config(options_file=SMALL)


def member(name, content=b"", **settings):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in settings.items():
        setattr(info, key, value)
    return info, content


def pack(path, *members, **settings):
    """A good archive with more members."""
    good = [member("config.json", json.dumps(SMALL_CONFIG).encode()), member("weights.th", to_bytes(SMALL_STATE))]
    with tarfile.open(path, "w:gz", **settings) as archive:
        for info, content in [*members, *good]:
            archive.addfile(info, io.BytesIO(content))
    return path


SPARSE = {"GNU.sparse.size": str(2**50), "GNU.sparse.map": "0,1"}


@pytest.mark.parametrize(
    "bad",
    [
        member("/etc/passwd", b"x"),
        member("../config.json", b"{}"),
        member("config.json", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("weights.th", type=tarfile.LNKTYPE, linkname="config.json"),
        member("pipe", type=tarfile.FIFOTYPE),
        member("hole", b"x", pax_headers=SPARSE),
    ],
    ids=range(6),
)
def test_members_that_lead_elsewhere_are_not_read(bad, tmp_path):
    wanted = load_bilm(pack(tmp_path / "good.tar.gz")).embed([["a"]])[0]
    assert (load_bilm(pack(tmp_path / "model.tar.gz", bad)).embed([["a"]])[0] == wanted).all()


TOO_MUCH = {
    "long": lambda path: path.write_bytes(gzip.compress(member("weights.th", size=2**40)[0].tobuf() + bytes(2**12))),
    "zeros": lambda path: path.write_bytes(gzip.compress(member("zeros")[0].tobuf() + bytes(2**27))),
    "xz": lambda path: path.write_bytes(lzma.compress(member("weights.th", size=2**27)[0].tobuf() + bytes(2**27))),
    "pax": lambda path: path.write_bytes(gzip.compress(member("x", type=tarfile.XHDTYPE)[0].tobuf() * 4000)),
}


@pytest.mark.parametrize("kind", TOO_MUCH)
def test_archives_that_declare_or_expand_to_too_much_are_refused(kind, tmp_path):
    TOO_MUCH[kind](tmp_path / "model.tar.gz")
    message = "EL0(36|22)" if kind in ("zeros", "pax", "xz") else "model.tar.gz.*weights.th ends at byte 1,099,5"
    with pytest.raises(ValueError, match=message):
        load_bilm(tmp_path / "model.tar.gz")


def test_a_damaged_header_is_not_the_end(tmp_path):
    """Python's tarfile stops there, and options after it would be missing without notice."""
    path = write_archive(tmp_path / "model.tar", SMALL_STATE, SMALL_CONFIG, {"options.json": b"{}"}, mode="w")
    content = bytearray(path.read_bytes())
    at = content.rindex(b"options.json")
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="EL022.*a header is damaged"):
        load_bilm(path)


@pytest.mark.parametrize(
    "text, wanted",
    [
        (r'{"a": [1, 2, ], "b": "c,]", }', r'{"a": [1, 2 ], "b": "c,]" }'),
        (r'{"a": "\\", "b\"": "\", }",}', r'{"a": "\\", "b\"": "\", }"}'),
    ],
)
def test_jsonnet_becomes_json(text, wanted):
    assert to_json(text.encode()).decode() == wanted
