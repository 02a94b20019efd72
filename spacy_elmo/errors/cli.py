"""Errors of the command line: arguments and outputs. EL134 to EL139, EL177 to EL179, EL200 to EL214, EL380, EL381."""

from .catalogue import Catalogue


class CLIErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

    EL134 = "The output '{path}' exists already. {remedy}"
    EL135 = (
        "The output '{path}' ends in '{suffix}' (--to {to}), but should end in .npz (arrays), .hdf5 or .h5 (a dataset "
        "per text) or .spacy (one DocBin), have no suffix (a folder of DocBins), or be '-' (.npz on stdout). Choose "
        "one of these, and leave out --to."
    )
    EL136 = "There is no GPU number {gpu_id}: PyTorch finds {n}. Choose another with --gpu-id, or -1 for the CPU."
    EL177 = "The operating system denies access to {path}: {reason}. {remedy}"
    EL178 = "'{path}' cannot be a folder: '{taken}' is a file. Choose another path."
    EL179 = (
        "'{path}' is not a regular file but a device, a pipe or a folder, and cannot be replaced. Choose another path, "
        "or write to a file first."
    )
    EL210 = (
        "The pipeline '{pipeline}' for the language '{lang}' cannot be created: {problems}. List components with "
        "--pipeline, separated by commas, for example --pipeline tagger,parser,ner."
    )
    EL211 = "{option} cannot be combined with {others}: they are for different kinds of configs. Remove one of them."
    EL213 = (
        "--small is for a config for pretraining, but a config of another kind ({kind}) was requested. Add "
        "--pretraining, or remove --small."
    )
    EL212 = (
        "spaCy cannot create a pipeline for the language '{lang}' ({reason}). Install the packages it requires, or "
        "choose another code with --lang, for example en, or xx for any language."
    )
    EL214 = (
        "--bilm is empty, should be the name of a packaged biLM or a path (is it a variable that is not set?). Name a "
        "biLM, or leave the option out."
    )
    EL200 = (
        "--tokenized and --lang {lang} exclude each other: --tokenized splits text at white space, --lang uses spaCy's "
        "tokenizer. Remove --tokenized for raw text, or --lang for tokenized text (the default)."
    )
    EL380 = "The text is empty. Give a text in quotation marks, or - and a text on stdin."
    EL381 = (
        "{text} has {found} of the word '{word}', fewer than the {wanted} asked for. Its tokens are: {tokens}. Give "
        "one of them as it is written, or an earlier occurrence, or another language with --lang."
    )
