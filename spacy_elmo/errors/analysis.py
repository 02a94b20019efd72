"""Errors of questions asked of vectors and pipelines, and of their pictures. EL230 to EL249."""

from .catalogue import Catalogue


class AnalysisErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL230 = (
        "No component of '{pipeline}' mixes the layers of a biLM; its components are: {pipes}. Train a component whose "
        "tok2vec has a spacy-elmo.ElmoListener.v1: `python -m spacy elmo init-config` writes such a config."
    )
    EL231 = (
        "'{path}' is not a log of layer weights: {problem}. Give the file that spacy-elmo.LayerWeightsLogger.v1 wrote "
        "during a training."
    )
    EL232 = "A picture cannot be written to '{path}': its suffix should be {suffixes}. Change the file name."
    EL233 = "A picture needs matplotlib, which is not installed. Install it: `pip install matplotlib`."
    EL234 = "--log needs a file to draw into. Name one with --picture, for instance --picture course.png."
    EL235 = (
        "The log of layer weights '{path}' exists already. Give another path in [training.logger], or move that file."
    )
    EL236 = (
        "spacy-elmo.LayerWeightsLogger.v1 has no layer weights to record: no component mixes the layers of a biLM (the "
        "components are: {pipes}). Remove the logger, or let a component use spacy-elmo.ElmoListener.v1."
    )
