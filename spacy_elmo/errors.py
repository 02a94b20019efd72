"""Every error and warning of the package: what is wrong, the value found, the value wanted, what to do."""


class Errors:
    """Templates of error messages, for `str.format`."""

    # bilm, text, encoding: EL001 to EL019
    EL001 = "Unknown setting in {block}: {unknown}. Known settings: {known}. Correct the name or remove it."
    EL002 = "The {block} does not describe a biLM: {problems}. Correct these settings."

    EL003 = (
        "The vocabulary cannot be used: special words missing: {missing}; words that stand more than once: {n_repeated} "
        "(first: {repeated}). A vocabulary has one word a line, `<S>`, `</S>` and `<UNK>` among them, each once."
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
        "State '{state}' is not known. Known are: {known}, a BiLMState, or None together with return_state=True."
    )
    EL010 = (
        "This biLM takes word ids, and some rows of its table are missing a name: the vocabulary has {n_words} words, "
        "the table {n_rows} rows. Load it with the vocabulary it was trained with (vocab=...)."
    )
    EL011 = "Sentence {i} is a {kind}, but should be a list of strings: pass tokenized text, one list per sentence."

    # weights: EL020 to EL059

    # ml, pipeline: EL060 to EL099

    # pretraining: EL100 to EL129

    # cli, project: EL130 to EL169


class Warnings:
    """Templates of warnings, for `str.format`."""

    # bilm, text, encoding: WL001 to WL019

    # weights: WL020 to WL039

    # ml, pipeline: WL060 to WL079

    # the rest: WL100 and up
