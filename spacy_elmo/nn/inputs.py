"""Batches as they come in: token lists, or character ids in the form of AllenNLP's `batch_to_ids`."""

from numbers import Integral
from typing import Any, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Type, Union

import torch
from torch import Tensor, nn

from ..bilm.layers import is_hooked
from ..errors import Errors
from ..inference.bilm import check_sentences
from ..inference.runtime import isolated
from ..text.words import character_ids

Inputs = Union[Tensor, Iterable[Sequence[str]]]
ID_TYPES = (torch.int64, torch.int32, torch.int16)  # 261, the largest id, does not fit into smaller ones
NO_SENTENCES = "The batch has no sentences. Pass at least one; a sentence may have no words."
MIN_CHARACTERS = 4  # begin and end of a word, and a character of two bytes


class SentenceBatch(NamedTuple):
    """Sentences of words, or of character ids, each distinct word once.

    sentences (List[List[Any]]): Words of each sentence; with `char_ids` their rows.
    mask (Tensor): Shape (B, S), True where a word is.
    char_ids (Optional[Tensor]): Shape (U, C).
    """

    sentences: List[List[Any]]
    mask: Tensor
    char_ids: Optional[Tensor] = None


@isolated
def batch_to_ids(sentences: Iterable[Sequence[str]], max_characters: int = 50) -> Tensor:
    """Character ids of tokenized sentences, as AllenNLP's function of this name gives them.

    sentences (Iterable[Sequence[str]]): Tokens of each sentence, without boundaries.
    max_characters (int): C, ids of a word; what the biLM was trained with, 4 or more.
    RETURNS (Tensor): Shape (B, S, C), int64; zeros where a sentence has no more words.
    RAISES (ValueError): EL011 for input that is not tokenized, EL060 for an invalid `max_characters`.
    """
    if not isinstance(max_characters, Integral) or isinstance(max_characters, bool) or max_characters < MIN_CHARACTERS:
        problem = f"max_characters is {max_characters!r}, should be a whole number of {MIN_CHARACTERS} or more"
        raise ValueError(Errors.EL060.format(block="function batch_to_ids", problems=problem))
    batch = check_sentences(sentences)
    mask = _length_mask([len(words) for words in batch])
    ids = torch.zeros(*mask.shape, max_characters, dtype=torch.long)
    ids[mask] = torch.from_numpy(character_ids([word for words in batch for word in words], max_characters))
    return ids


def read_inputs(inputs: Inputs, first_id: Optional[int] = None) -> SentenceBatch:
    """The batch, on the CPU. Character ids have shape (B, S, C), and each word begins with `first_id`, if there is one.

    RAISES (ValueError): EL011 for input that is not tokenized, EL017 for ids of another shape or type, or not shifted
        by one; for a batch without sentences.
    """
    if isinstance(inputs, Tensor):
        if problem := _describe_problem(inputs, first_id):
            raise ValueError(Errors.EL017.format(problem=problem))
        ids = inputs.cpu()
        mask = (ids != 0).any(dim=2)  # (B, S)
        distinct, numbers = torch.unique(ids[mask], dim=0, return_inverse=True)
        batch = SentenceBatch([rows.tolist() for rows in numbers.split(mask.sum(dim=1).tolist())], mask, distinct)
    else:
        sentences = check_sentences(inputs)
        batch = SentenceBatch(sentences, _length_mask([len(words) for words in sentences]))
    if not batch.sentences:
        raise ValueError(NO_SENTENCES)
    return batch


def _length_mask(lengths: Sequence[int], n_columns: Optional[int] = None) -> Tensor:
    """Shape (B, S), True for the first tokens of each row; S is by default the largest length."""
    sizes = torch.tensor(lengths, dtype=torch.long)
    n_columns = max(lengths, default=0) if n_columns is None else n_columns
    return torch.arange(n_columns) < sizes.unsqueeze(1)


def with_boundaries(mask: Tensor) -> Tensor:
    """From the mask (B, S) of words to the mask (B, S + 2) of `<S>`, words and `</S>`."""
    return _length_mask((mask.sum(dim=1) + 2).tolist(), mask.shape[1] + 2)


def without_boundaries(rows: Iterable[Tensor], mask: Tensor) -> Tuple[List[Tensor], Tensor]:
    """From rows (N, D) of `<S>`, words and `</S>`, with the mask (B, S + 2), to rows of words and their mask (B, S)."""
    is_word = torch.zeros_like(mask)
    is_word[:, 1:-1] = mask[:, 2:]  # the words are shifted by one, and each sentence has two rows fewer
    places = is_word[mask]
    return [vectors[places.to(vectors.device)] for vectors in rows], mask[:, 2:]


def strip_boundaries(rows: Tensor, mask: Tensor) -> Tuple[Tensor, Tensor]:
    """The same as `without_boundaries` of padded rows (B, S + 2, D), to (B, S, D), zeros outside the mask."""
    inner = mask[:, 2:] != 0
    return rows[:, 1:-1].masked_fill(~inner.unsqueeze(-1), 0.0), inner


def pad_rows(rows: Tensor, mask: Tensor) -> Tensor:
    """From rows (..., N, D), one sequence after the other, to (..., B, S, D), zeros where the mask (B, S) is False."""
    places = mask.flatten().nonzero().squeeze(1).to(rows.device)  # (N,)
    padded = rows.new_zeros(*rows.shape[:-2], mask.numel(), rows.shape[-1])
    padded.index_copy_(-2, places, rows)
    return padded.view(*rows.shape[:-2], *mask.shape, rows.shape[-1])


def is_original(module: nn.Module, kind: Type[nn.Module]) -> bool:
    """Whether a module is of exactly this class, and nobody reads or changes what goes in and out."""
    return type(module) is kind and not is_hooked(module)


def _describe_problem(ids: Tensor, first_id: Optional[int]) -> str:
    if ids.dim() != 3 or not ids.shape[2]:
        return f"they have shape {tuple(ids.shape)}, should have (B, S, C)"
    if ids.dtype not in ID_TYPES:
        return f"they are {ids.dtype}, should be torch.int64"
    mask = (ids != 0).any(dim=2).cpu()  # (B, S)
    if not torch.equal(mask, _length_mask(mask.sum(dim=1).tolist(), ids.shape[1])):
        return "a row of zeros, which is padding, comes before the last word"
    first_ids = ids[:, :, 0].cpu()[mask]
    wrong_ids = first_ids[first_ids != first_id]
    if first_id is not None and len(wrong_ids):
        return f"a word begins with {int(wrong_ids[0])}, should begin with {first_id}, the id of the begin of a word"
    return ""
