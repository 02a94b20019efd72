"""Errors of the biLM itself: config, text, engine, encoding. EL001 to EL019."""

from .catalogue import Catalogue


class BiLMErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL001 = "Unknown setting in {block}: {unknown}. Known settings: {known}. Correct the name or remove it."
    EL002 = "The {block} does not describe a biLM: {problems}. Correct these settings."
    EL003 = (
        "The vocabulary cannot be used: special words missing: {missing}; words that stand more than once: "
        "{n_repeated} (first: {repeated}). A vocabulary has one word a line, `<S>`, `</S>` and `<UNK>` among them, "
        "each once."
    )
    EL004 = "The {name} is {value}, but should be {wanted}."
    EL005 = (
        "A window of {max_tokens} tokens with an overlap of {overlap} never gets on. "
        "Choose max_tokens of 1 or more and an overlap below half of it."
    )
    EL006 = (
        "The state has {name} of shape {shape}, but this biLM needs {wanted} (layers, rows, width). "
        "Pass a state that `embed(..., return_state=True)` of the same model gave."
    )
    EL007 = (
        "This biLM has no {part}, so it cannot give {what}. Load it with one "
        "(`load_bilm(options=..., weights=..., vocab=..., softmax=...)`), or use a model that was pretrained here."
    )
    EL008 = "The setting layers is {value!r}, but should be 'all', 'top', 'mean' or an int from 0 to {n_layers}."
    EL009 = (
        "The state is {state}, but should be one of {known}, a BiLMState that `embed(..., return_state=True)` of this "
        "biLM gave, or None for zero. Choose one of these."
    )
    EL010 = (
        "This biLM takes word ids, and some rows of its table are missing a name: the vocabulary has {n_words} words, "
        "the table {n_rows} rows. Load it with the vocabulary it was trained with (vocab=...)."
    )
    EL011 = "Sentence {i} is a {kind}, but should be a list of strings: pass tokenized text, one list per sentence."
    EL012 = (
        "An adaptive softmax over {n_words} words cannot have cutoffs {cutoffs} with div_value {div_value}. Cutoffs "
        "are one or more ascending numbers from 1 to below the size of the vocabulary, div_value is 1 or more."
    )
    EL013 = (
        "The softmax cannot share the word table: this biLM reads characters and has none. Set tie_weights to false, "
        "or give the biLM word input (n_words in place of char_cnn)."
    )
    EL014 = "The precision is '{precision}', but should be one of: {known}. Choose one of these."
    EL015 = (
        "The precision '{precision}' cannot be used on {device}: {reason}. Choose {others} "
        "(for a saved pipeline: components.NAME.model.precision in the `config` of `spacy.load`)."
    )
    EL016 = "{what} needs weights in float32, but they are in {precision}. {remedy}"
    EL017 = (
        "These character ids cannot be read: {problem}. Pass ids as `batch_to_ids` of AllenNLP makes them, one row a "
        "word, to a biLM that reads characters."
    )
