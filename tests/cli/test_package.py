"""`elmo package`: a pipeline that spaCy loads, and names that are refused."""

import spacy
from cli.calls import call, refused
from inference.forcing import needs_kernel

from spacy_elmo.weights import load_bilm


def test_package_is_a_pipeline(bilm_path, tmp_path):
    arguments = ("package", bilm_path, tmp_path / "out", "--name", "tiny", "--build", "none", "--version", "2.0")
    result = call(*arguments)
    assert "xx_elmo_tiny-2.0" in result.stderr.replace("\n", "") and result.stdout == ""
    nlp = spacy.load(tmp_path / "out" / "xx_elmo_tiny-2.0" / "xx_elmo_tiny" / "xx_elmo_tiny-2.0")
    wanted = load_bilm(bilm_path).embed([["the", "cat"]])[0].mean(axis=0)
    assert abs(nlp("the cat")._.elmo - wanted).max() < 1e-6
    assert "--force" in refused(*arguments)


@needs_kernel
def test_language_is_that_of_the_bilm(tmp_path):
    call("package", "en_elmo_sm", tmp_path, "--name", "sm", "--build", "none", "--precision", "int8")
    folder = tmp_path / "en_elmo_sm-1.0.0"
    (model,) = folder.glob("*/*/elmo/model")
    assert (folder / "setup.py").is_file() and model.stat().st_size < 20e6
