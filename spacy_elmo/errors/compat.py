"""Errors of the replacements for other packages. EL330 to EL339."""

from .catalogue import Catalogue


class CompatErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL330 = (
        "The {name} is '{url}', which is an address on the web, but should be the path of a file. Nothing is "
        "downloaded at run time. Download the file once (`python -m spacy elmo download NAME --dest FOLDER`, or with a "
        "browser), and pass its path; `python -m spacy elmo download --list` shows the names."
    )
    EL331 = (
        "This biLM does not fit the module of AllenNLP: {problems}. Use `spacy_elmo.nn.Elmo`, which takes every biLM."
    )
    EL332 = "Invalid argument: {name} is {value}, but should be {wanted}."
    EL333 = "There is no {name} at '{path}'. Check the path."
    EL334 = "No biLM is loaded. Call `load(PATH)` before `{method}`."
    EL335 = "`{name}` cannot be called here. Use {instead} instead."
    EL336 = (
        "The text has {n_lines} lines without words (the first is line {first}, counted from 1). Remove them: each "
        "line is one sentence."
    )
    EL337 = (
        "The sentence {sentence!r} {problem}, so that it cannot be a key of the file. Use line numbers as keys "
        "(use_sentence_keys=False)."
    )
    EL338 = (
        "The mask of `reset_states` has shape {found}, but should have {wanted}: one truth value for each row of the "
        "state."
    )
    EL339 = "{name} takes either {one} or {other}; found {found}. Pass one of them."
