"""Loaders of weights: the callbacks of `[initialize.components.elmo.loader]`."""

from functools import partial
from typing import Any, Callable, Dict, Optional

import torch

from ..bilm.config import BiLMConfig
from ..bilm.model import BiLMNetwork
from ..inference.bilm import BiLM
from ..inference.isolation import isolated
from ..weights import load_bilm
from ..weights.formats import resolve as resolve

Loader = Callable[[], BiLM]


def BiLMLoader(
    path: Optional[str] = "en_elmo_sm",
    options: Optional[str] = None,
    weights: Optional[str] = None,
    vocab: Optional[str] = None,
    token_embeddings: Optional[str] = None,
) -> Loader:
    """Load a biLM from files. Relative paths start in the working directory of this call.

    path (Optional[str]): A packaged name, or a folder, zip or file in any known format; null if `weights` is given.
    options (Optional[str]): An options file, if it is not in the folder of the weights.
    weights (Optional[str]): A weights file.
    vocab (Optional[str]): A vocabulary, one word per line.
    token_embeddings (Optional[str]): A file of precomputed word vectors in the order of `vocab`.
    RETURNS (Callable[[], BiLM]): The loader; it opens the files when it is called. RAISES (ValueError): When it is
        called, if neither `path` nor `weights` is given; others as `load_bilm`.
    """
    given = {"options": options, "weights": weights, "vocab": vocab, "token_embeddings": token_embeddings}
    files = {name: None if file is None else resolve(file) for name, file in given.items()}
    return partial(_load_given, None if path is None or weights is not None else resolve(path), **files)


def _load_given(path: Optional[str], **files: Any) -> BiLM:
    """RAISES (ValueError): Without a path, or with an empty one, and without weights; others as `load_bilm`."""
    if not (path or "").strip() and files["weights"] is None:
        raise ValueError(
            "No biLM is given: the path in [initialize.components.elmo.loader] is null or empty. Add "
            "--paths.bilm, with the name of a packaged model or the path of weights in any known format, or "
            "set the path in this block."
        )
    return load_bilm(path, **files)


def RandomBiLM(bilm: Dict[str, Any], seed: int = 0) -> Loader:
    """Create a biLM with random weights, for tests and timing. Its vectors are meaningless.

    bilm (Dict[str, Any]): Its sizes, the keys of `BiLMConfig`.
    seed (int): Seed of the weights.
    RETURNS (Callable[[], BiLM]): The loader; it creates the biLM when it is called.
    """
    return partial(make_random_bilm, bilm, seed)


@isolated
def make_random_bilm(bilm: Dict[str, Any], seed: int) -> BiLM:
    """bilm (Dict[str, Any]): Sizes, the keys of `BiLMConfig`.
    seed (int): Seed of the weights; the global generator of PyTorch does not change.
    RETURNS (BiLM): A biLM with random weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BiLM(BiLMNetwork(BiLMConfig.from_dict(bilm)).eval(), meta={"random_seed": seed})
