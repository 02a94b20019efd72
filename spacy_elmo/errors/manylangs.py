"""Errors of models of ELMoForManyLangs, and of biLMs of their kind. EL300, EL302, EL304 to EL309."""

from .catalogue import Catalogue


class ManyLangsErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL300 = (
        "This biLM reads words and characters by tables of its own, whose symbols are in a lexicon; problems with its "
        "lexicon: {problems}. Load the biLM with `load_bilm`, or pass `lexicon=` of the model the weights belong to."
    )
    EL302 = (
        'A biLM with encoder = "bilstm" cannot be pretrained and has no perplexity: each of its layers reads both '
        'directions, so it sees the words that a language model predicts. Set encoder = "lstm".'
    )
    EL304 = (
        "The architecture '{path}' of an ELMoForManyLangs model is invalid: {problems}. Use the file that came with "
        "the model, as a rule cnn_50_100_512_4096_sample.json."
    )
    EL305 = (
        "'{path}' cannot be used as a table of symbols, one SYMBOL<TAB>ID per line in UTF-8, {n_problems} problem(s):"
        "{problems}\nUse the file that came with the model."
    )
    EL306 = (
        "The ELMoForManyLangs model '{path}' is not complete: {missing}. Unpack the download again, with all of its "
        "files in one folder, or pass the zip itself."
    )
    EL307 = (
        "The weights of the ELMoForManyLangs model '{path}' do not fit its architecture and its tables of symbols, "
        "{n_problems} problem(s):{problems}\nUse files of one model; otherwise one of them is damaged."
    )
    EL308 = (
        "This biLM cannot be saved in the {format} format: {problems}. The vectors would differ. Save it with format "
        '"native".'
    )
    EL309 = (
        "A biLM with words and characters (token_embedder, ELMoForManyLangs) cannot be pretrained further and has no "
        "perplexity: its files have no softmax, and text is read by the tables of symbols of the model. Fine-tune it "
        "in a pipeline or with `spacy_elmo.nn.Elmo` instead."
    )
