"""Raw text for pretraining: tokenized sentences of files, a folder or a pattern, or an even share of them."""

from pathlib import Path
from typing import Iterator, List, Sequence

from messages import Messages

from spacy_elmo.corpora.shards import find_shards, read_shards

BLOCK = 100  # sentences, of which a share takes the first ones


def read_sentences(texts: Sequence[str], share: int = 100) -> Iterator[List[str]]:
    """texts (Sequence[str]): Files, folders or patterns of tokenized text, one sentence per line.
    share (int): Of every 100 sentences, so many from the first one on are read.
    YIELDS (List[str]): The tokens of a sentence.
    RAISES (ValueError): P030 if there is no sentence, or an error of the package for a place without texts.
    """
    if not all(texts):  # an empty path would be the current folder
        raise ValueError(Messages.P030.format(texts=repr(texts)))
    n_read = 0
    for position, tokens in enumerate(read_shards(find_shards(list(texts)))):
        if position % BLOCK < share:
            n_read += 1
            yield tokens
    if not n_read:
        raise ValueError(Messages.P030.format(texts=", ".join(texts)))


def name_texts(texts: Sequence[str]) -> str:
    """RETURNS (str): The last two parts of each path, which say what was read without naming a machine's folders."""
    return ", ".join("/".join(Path(text).parts[-2:]) for text in texts)
