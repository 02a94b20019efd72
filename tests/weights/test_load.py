"""Which files are read: beside others, in archives, by name; an unknown path has a line for each format."""

import io
import shutil
import tarfile
import zipfile

import pytest
from reference.seeded_weights import SENTENCES, WORDS, make_arrays, make_options
from reference.tensorflow_files import write_checkpoint

import spacy_elmo.weights.formats.native
from spacy_elmo import BiLM, load_bilm, save_bilm
from spacy_elmo.compat.bilm import dump_bilm_embeddings, dump_token_embeddings
from spacy_elmo.compat.simple_elmo import ElmoModel
from spacy_elmo.weights.contents import hash_weights
from spacy_elmo.weights.formats import FORMATS
from spacy_elmo.weights.load import detect_format


def assert_is_model(bilm, folder):
    wanted = load_bilm(options=folder / "options.json", weights=folder / "weights.hdf5")
    for first, second in zip(bilm.embed(SENTENCES), wanted.embed(SENTENCES)):
        assert (first == second).all()


def pack(folder, path, inner="", **renamed):
    """A zip of the files of a folder."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in folder.iterdir():
            archive.write(file, inner + renamed.get(file.stem, file.name))
    return path


@pytest.mark.parametrize(
    "options, weights",
    [
        ("options.json", "model.hdf5"),
        ("elmo_2x24_options.json", "elmo_2x24_weights.hdf5"),
        ("small_options.json", "small.hdf5"),
        ("options.json", "weights.h5"),
        ("options.json", "elmo.ckpt"),
        ("options.json", "elmo"),
    ],
)
def test_weights_beside_their_options(options, weights, folder, tmp_path):
    target = tmp_path / "renamed"
    target.mkdir()
    shutil.copy(folder / "options.json", target / options)
    shutil.copy(folder / "weights.hdf5", target / weights)
    if "elmo" in options:
        (target / "another_options.json").write_text("{}")
    for path in (target / weights, target / options, *([target] if options == "options.json" else [])):
        assert_is_model(load_bilm(path), folder)


@pytest.mark.parametrize("inner", ["", "144/"])
def test_zip_is_read_without_unpacking(inner, folder, tmp_path):
    (folder / "meta.json").write_text("{}")
    (folder / "README").write_text("text")
    path = pack(folder, tmp_path / "144.zip", inner, weights="model.hdf5" if inner else "elmo")
    before = sorted(tmp_path.rglob("*"))
    bilm = load_bilm(path)
    assert_is_model(bilm, folder)
    assert bilm.vocabulary.words == WORDS
    assert sorted(tmp_path.rglob("*")) == before


def test_ambiguous_folder(folder):
    shutil.copy(folder / "weights.hdf5", folder / "other.hdf5")
    with pytest.raises(ValueError, match=r"EL021.*2 files with HDF5 weights \(other.hdf5, weights.hdf5\)"):
        load_bilm(folder)
    (folder / "other.hdf5").unlink()
    shutil.copy(folder / "options.json", folder / "b_options.json")
    with pytest.raises(ValueError, match="EL021.*2 files with options"):
        load_bilm(folder)


@pytest.mark.issue(48)
def test_vectors_beside_the_weights_are_not_weights(folder):
    elmo, corpus = [folder / "options.json", folder / "weights.hdf5"], folder.parent / "text.txt"
    corpus.write_text("the cat\n", encoding="utf8")
    dump_bilm_embeddings(folder / "vocab.txt", corpus, *elmo, folder / "a_vectors.hdf5")
    dump_token_embeddings(folder / "vocab.txt", *elmo, folder / "elmo_words.hdf5")
    assert_is_model(load_bilm(folder), folder)
    model = ElmoModel()
    model.load(folder)
    assert_is_model(model.bilm, folder)
    for name, text in (("a_vectors", "a file of vectors"), ("elmo_words", "token embeddings.*`token_embeddings`")):
        for given in ({"path": folder / f"{name}.hdf5"}, {"options": elmo[0], "weights": folder / f"{name}.hdf5"}):
            with pytest.raises(ValueError, match=f"EL020.*{text}"):
                load_bilm(**given)


@pytest.mark.issue(48)
def test_files_in_the_place_of_others_are_named(folder):
    with pytest.raises(ValueError, match="EL020.*options and weights may be in the wrong order"):
        load_bilm(options=folder / "weights.hdf5", weights=folder / "options.json")
    with pytest.raises(ValueError, match="EL020.*it is a folder.*Looked for: the file '.*weights.hdf5'"):
        load_bilm(options=folder / "options.json", weights=folder)
    save_bilm(BiLM(load_bilm(folder).network), folder.parent / "without", format="bilm-tf")
    weights = folder.parent / "without" / "weights.hdf5"
    with pytest.raises(ValueError, match="EL026.*2 problem.*\n- missing: softmax/W.*\n- missing: softmax/b"):
        load_bilm(folder, softmax=weights)
    assert load_bilm(weights, softmax=folder / "weights.hdf5", vocab=folder / "vocab.txt").head is not None


def test_named_files_must_exist(folder, tmp_path):
    for name in ("vocab", "softmax", "token_embeddings"):
        with pytest.raises(ValueError, match="EL020.*there is no such file"):
            load_bilm(folder, **{name: tmp_path / "nowhere"})
    with pytest.raises(ValueError, match="EL020.*there is no such file"):
        load_bilm(options=folder / "options.json", weights=tmp_path / "nowhere")


@pytest.mark.parametrize("given", [(), ("options",), ("path", "options", "weights")])
def test_path_or_both_files(given, folder):
    files = {"path": folder, "options": folder / "options.json", "weights": folder / "weights.hdf5"}
    with pytest.raises(ValueError, match="takes either a path, or options and"):
        load_bilm(**{name: files[name] for name in given})


def test_hdf5_without_options_says_how_to_name_them(folder):
    (folder / "options.json").unlink()
    with pytest.raises(ValueError, match="EL020.*HDF5 file without options in the same folder.*given as `options`"):
        load_bilm(folder / "weights.hdf5")


def test_packaged_name(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(spacy_elmo.weights.formats.native, "MODELS_DIR", tmp_path / "models")
    with pytest.raises(ValueError, match="elmo that includes it, or pass the path of other"):
        load_bilm("en_elmo_sm")
    save_bilm(load_bilm(folder), tmp_path / "models" / "en_elmo_sm")
    assert_is_model(load_bilm("en_elmo_sm"), folder)


@pytest.mark.parametrize("place", ["folder", "weights.hdf5", "zip", "checkpoint"])
def test_token_embeddings_beside_are_used_only_if_they_are_given(place, folder, tmp_path):
    """Words outside the vocabulary would have one vector, of <UNK>."""
    path = folder if place == "folder" else folder / place
    if place == "checkpoint":
        options = make_options()
        path = write_checkpoint(tmp_path / "training", options, make_arrays(options), WORDS)
    table = (folder if place != "checkpoint" else path) / "token_embeddings.hdf5"
    dump_token_embeddings(folder / "vocab.txt", folder / "options.json", folder / "weights.hdf5", table)
    if place == "zip":
        path = pack(folder, tmp_path / "a.zip")
    with pytest.warns(UserWarning, match="not used.*reads the characters of each word.*pass `token_embeddings`"):
        bilm = load_bilm(path)
    assert_is_model(bilm, folder)
    cat, dog = load_bilm(path, token_embeddings=table).embed([["the", "cat"], ["the", "dog"]])  # without a warning
    assert (cat == dog).all()


def test_a_tilde_is_the_home_folder(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    assert_is_model(load_bilm("~/original"), folder)
    names = {"options": "options.json", "weights": "weights.hdf5", "vocab": "vocab.txt"}
    assert_is_model(load_bilm(**{key: f"~/original/{name}" for key, name in names.items()}), folder)
    save_bilm(load_bilm("~/original"), "~/copy")
    assert hash_weights("~/copy") == hash_weights(folder.parent / "copy")
    with pytest.raises(ValueError, match="EL020.*~nobody-of-this-name/model"):
        load_bilm("~nobody-of-this-name/model")


def message_of(path):
    with pytest.raises(ValueError, match="EL020") as error:
        detect_format(path)
    return str(error.value)


# Files at the path, and what the message says of them.
CASES = {
    "empty folder": ([], ["native: config.json is missing, weights.safetensors is missing;", "bilm-tf: *opt"]),
    "half of native": (["config.json"], ["native: config.json is there, weights.safetensors is missing;"]),
    "weights alone": (["a.hdf5"], ["bilm-tf: *options.json is missing, a.hdf5 is there"]),
    "misspelled": (["confg.json"], ["native: config.json is missing, weights.safetensors is missing;"]),
    "state dict of another name": (["training_state_epoch_3.th"], ["allennlp: weights.th or best.th is missing;"]),
}


def test_members_of_a_tar_are_listed(tmp_path):
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        for name in ("model/config.json", "model/vocabulary/tokens.txt"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    message = message_of(tmp_path / "model.tar.gz")
    assert "it is in no known format" in message and "single file" not in message
    assert "\n- native: config.json is there, weights.safetensors is missing;" in message
    assert "\n- allennlp: weights.th or best.th is missing;" in message


def test_a_folder_with_one_archive_is_read_as_the_archive(folder, tmp_path):
    path = tmp_path / "downloaded"
    path.mkdir()
    pack(folder, path / "144.zip")
    (path / "origin.json").write_text("{}")
    assert_is_model(load_bilm(path), folder)
    (path / "145.zip").write_bytes(b"PK")
    assert "*options.json is missing" in message_of(path), "two archives are ambiguous"


def test_options_stand_for_the_weights_beside_them(folder):
    for name in ("weights.hdf5", "options.json"):
        shutil.copy(folder / name, folder / f"a_{name}")
    assert detect_format(folder / "a_options.json")[1].weights.path == folder / "a_weights.hdf5"
    with pytest.raises(ValueError, match="EL021.*2 files with HDF5 weights.*a folder of their own"):
        detect_format(folder / "options.json")


@pytest.mark.parametrize("case", CASES)
def test_a_folder_that_is_no_model_has_a_line_for_each_format(case, tmp_path):
    files, texts = CASES[case]
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    message = message_of(tmp_path)
    assert all(f"\n- {format.name}: " in message for format in FORMATS)
    for text in texts:
        assert text.format(path=tmp_path) in message
