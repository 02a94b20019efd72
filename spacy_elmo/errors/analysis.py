"""Errors of questions asked of vectors and pipelines, of exports, and of the explorer."""

from .catalogue import Catalogue


class AnalysisErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL230 = (
        "No component of '{pipeline}' mixes the layers of a biLM; its components are: {pipes}. Train a component whose "
        "tok2vec has a spacy-elmo.ElmoListener.v1: `python -m spacy elmo init-config` writes such a config."
    )
    EL352 = 'This biLM cannot be exported to ONNX: {reason}. Save it in the native format instead (format "native").'
    EL354 = (
        "The output '{path}' does not fit the format {format}: {reason}. Choose a path that ends in .onnx for ONNX, "
        "which is one file, and a folder for other formats."
    )
    EL390 = (
        "'{path}' is not an index of tokens: {problem}. Give the folder that `python -m spacy elmo index CORPUS INDEX` "
        "wrote; if it is this one, build it again with --force."
    )
    EL391 = (
        "The index '{path}' is not complete: {problem}. Run the command that started it again, with the same corpus "
        "and settings: it continues where it stopped."
    )
    EL392 = (
        "The index '{path}' is damaged: {problem}. Build it again: `python -m spacy elmo index CORPUS {path} --force`, "
        "with the options of the first time. Its biLM, layer, precision and choice of words are kept if they can be "
        "read."
    )
    EL393 = (
        "The index '{path}' was built with other settings: {differences}. To add to it, leave these settings out (a "
        "digest that differs without --bilm means that the file of the biLM has changed: give the old one with "
        "--bilm), or replace it with --force."
    )
    EL394 = (
        "The biLM is not the one of the index '{path}': {difference}. Vectors of two biLMs cannot be compared. Give "
        "the biLM that the index was built with, which was '{bilm}' then, or build an index with the other one."
    )
    EL401 = (
        "Another process is writing the index '{path}'. Wait until it has finished, or stop it: the index stays as it "
        "was after its last batch."
    )
    EL406 = (
        "The index '{path}' cannot be searched: {problem}. Its texts and vectors are intact: `python -m spacy elmo "
        "index {path}` makes the file again."
    )
    EL412 = (
        "The request was refused: its {header} is '{found}', should be {wanted}. Open the page under the address that "
        "the command printed."
    )
    EL430 = (
        "'{path}' has no trained pipeline: {problem}. Give the folder that `python -m spacy train --output` wrote, "
        "with model-best or model-last in it, or the folder of a pipeline, with config.cfg and meta.json."
    )
    EL431 = "'{path}' cannot be read as {kind}: {problem}. Make the file again, or remove it."
