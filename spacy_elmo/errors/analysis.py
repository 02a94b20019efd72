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
        "during a training; from a folder that `elmo report` reads, remove the file."
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
    EL237 = "The folder '{path}' has no config.cfg, so it is not a pipeline. {hint}"
    EL238 = "The pipeline '{pipeline}' is named twice. Name each pipeline once."
    EL239 = (
        "The log '{log}' has the layer weights of other mixes ({logged}) than the pipeline '{pipeline}' has ({known}). "
        "Give the log of the training of this pipeline."
    )
    EL241 = "Unknown attribute '{attr}' of tokens. Choose one of: {known}."
    EL242 = (
        "None of the {n_docs} Docs has a token with the label '{attr}'. Give annotated Docs, or another attribute; "
        "`doc.to_json()` shows what a Doc is annotated with."
    )
    EL243 = "No interval can be computed: {problem}. Change the data or the setting."
    EL244 = (
        "A linear probe needs scikit-learn, which is not installed. Install it: `pip install "
        '"spacy-elmo[analysis]"`, or `pip install scikit-learn`.'
    )
    EL245 = (
        "A probe cannot be trained on {n_labels} different labels ({labels}): it needs two or more. Give training data "
        "with more labels, or another attribute."
    )
    EL246 = (
        "The components of '{pipeline}' that mix the layers of a biLM are not trained, so that they have no weights: "
        "{pipes}. Name the folder of a trained pipeline, such as model-best."
    )
