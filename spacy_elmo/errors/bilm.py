"""Errors of the biLM itself. EL001 to EL019, EL340 and EL341."""

from .catalogue import Catalogue


class BiLMErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL001 = "Unknown setting in {block}: {unknown}. Known settings: {known}. Correct the name or remove it."
    EL007 = (
        "This biLM has no {part}, which {what} need. Use a biLM pretrained with spacy-elmo, or load the original files "
        "with one, if it was published (`load_bilm(options=..., weights=..., vocab=..., softmax=...)`; models of "
        "ELMoForManyLangs have none). `spacy_elmo.nn.Elmo(name)` and the component `elmo` leave the softmax out: take "
        "the biLM of `load_bilm(name)`."
    )
    EL011 = (
        "Sentence {i} is a {kind}, but should be a list of strings. Pass tokenized text, one list of words per "
        "sentence."
    )
    EL015 = (
        "The precision '{precision}' cannot be used on {device}: {reason}. Choose {others} "
        "(for a saved pipeline: components.NAME.model.precision in the `config` of `spacy.load`)."
    )
    EL017 = (
        "These character ids are invalid: {problem}. Pass ids as returned by AllenNLP's `batch_to_ids`, one row per "
        "word, to a biLM with character input."
    )
    EL018 = (
        "Position {position} is not in a sentence of {n_words} words. Give a sentence that has words, and a position "
        "from 0 to the number of words minus 1."
    )
    EL340 = (
        "{wanted} cannot be used: the encoder of this biLM, '{encoder}', has no recurrent state. It reads each "
        'sequence by itself. Use state "reset".'
    )
    EL341 = (
        "A sequence has {n_tokens} tokens, BOS and EOS included, but this transformer reads at most {max_positions}, "
        "since attention takes time in proportion to the square of the length. Split it into sentences or windows (the "
        "component: set max_tokens to {max_positions} - 2 or less)."
    )
