"""Errors of token indexes, neighbours, senses and the same-sense score. EL390 to EL409."""

from .catalogue import Catalogue


class IndexErrors(metaclass=Catalogue):
    """Templates for `str.format`."""

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
    EL395 = "The vector of a query {problem}. It should have {width} finite numbers that are not all zero."
    EL396 = (
        "The index has no use of '{word}'. Words of the index that are spelled alike: {similar}. Choose a word "
        "of the index, or add texts that contain it."
    )
    EL397 = (
        "An index of {n_tokens} tokens needs Faiss, which is not installed. Install it: `pip install "
        '"spacy-elmo[index]"`, or `pip install faiss-cpu`.'
    )
    EL398 = (
        '{what} needs scikit-learn, which is not installed. Install it: `pip install "spacy-elmo[analysis]"`, or '
        "`pip install scikit-learn`."
    )
    EL399 = (
        "The index '{path}' has no layer {layer}: it stores layer {stored}. Leave --layer out, or build an index of "
        "that layer."
    )
    EL400 = "The biLM '{bilm}' has no layer '{layer}'. Choose one of: {known}."
    EL401 = (
        "Another process is writing the index '{path}'. Wait until it has finished, or stop it: the index stays as it "
        "was after its last batch."
    )
    EL402 = "The index '{path}' has no document '{name}'. It has {n} documents, for instance: {known}."
    EL403 = "Nothing to do with the index '{path}': {problem}. Name a corpus before it, or choose --check or --delete."
    EL404 = "The uses of '{word}' cannot be clustered: {problem}. Choose another number of senses, or another word."
    EL405 = "--{first} and --{second} would write the same file '{path}'. Choose another path for one of them."
    EL406 = (
        "The index '{path}' cannot be searched: {problem}. Its texts and vectors are intact: `python -m spacy elmo "
        "index {path}` makes the file again."
    )
    EL408 = "Unknown choice of uses '{uses}'. Choose one of: any, same, other."
