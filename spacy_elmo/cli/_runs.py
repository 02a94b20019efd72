"""From the config of `elmo pretrain` to a run: texts, vocabulary, and a biLM that is new or goes on."""

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

import torch

from ..bilm.config import BiLMConfig
from ..bilm.lm_head import AdaptiveHead, LMHead, SoftmaxHead
from ..bilm.model import BiLMNetwork
from ..encoding.facade import BiLM
from ..errors import Errors
from ..pretraining.config import PretrainConfig, SoftmaxConfig, refuse_unknown
from ..pretraining.corpus import Shard, read_shards
from ..pretraining.counting import count_vocabulary
from ..pretraining.distributed import Ranks
from ..pretraining.lines import STDIN
from ..pretraining.run import Pretraining
from ..pretraining.run_folder import stored_vocabulary
from ..pretraining.validation import read_held_out
from ..text.vocabulary import Vocabulary
from ..weights import load_bilm
from . import _common
from ._shards import find_shards

# Blocks of the config with the settings of those that have no class of their own.
BLOCKS: Dict[str, Optional[List[str]]] = {
    "paths": ["train", "valid", "vocab", "init"],
    "corpus": ["format", "lang", "running_text"],
    "vocabulary": ["n_words", "min_count", "new_head"],
    "bilm": None,
    "pretraining": None,
    "meta": None,
}


# How the text is read, where the config says nothing.
TEXT_DEFAULTS: Dict[str, Dict[str, Any]] = {
    "corpus": {"format": "auto", "lang": None, "running_text": False},
    "vocabulary": {"n_words": 30000, "min_count": 1, "new_head": False},
}


def make_run(config: Mapping[str, Any], output: Path, ranks: Ranks, *, resume: bool = False) -> Pretraining:
    """Check settings, find texts, count the vocabulary, make or load the biLM.

    config (Mapping[str, Any]): Blocks `paths`, `corpus`, `vocabulary`, `bilm`, `pretraining`, `meta`.
    output (Path): Folder of the run.
    ranks (Ranks): This process among those that train together.
    resume (bool): Take the vocabulary from the run that the folder holds, if there is one, in place of counting it.
    RETURNS (Pretraining): Ready to begin.
    RAISES (ValueError): EL001 for unknown blocks or settings, EL105 for paths that lead nowhere, EL147 and EL148 if the
        biLM to start from has another vocabulary or other sizes.
    """
    _check_blocks(config)
    settings = PretrainConfig.from_dict(config.get("pretraining", {}))
    ranks.lanes(settings.batch_size)
    paths, words = config.get("paths", {}), config.get("vocabulary", {})
    init = load_bilm(paths["init"]) if paths.get("init") else None
    sizes = _sizes(config.get("bilm"), init, str(paths.get("init")))
    shards, held_out = _texts("train", config), read_held_out(_texts("valid", config), settings.eval_sentences)
    stored = stored_vocabulary(output) if resume and ranks.is_writer else None
    vocabulary = ranks.from_writer(_vocabulary(paths, words, init, shards, stored) if ranks.is_writer else None)
    torch.manual_seed(settings.seed)
    if init is None:
        network = BiLMNetwork(BiLMConfig.from_dict(_with_words(sizes, len(vocabulary))))
    else:
        network = init.network
    network.to(ranks.device)
    head = _head(network, vocabulary, init, settings, is_new=bool(words.get("new_head"))).to(ranks.device)
    meta = dict(config.get("meta", {}))
    text_settings = {name: {**defaults, **config.get(name, {})} for name, defaults in TEXT_DEFAULTS.items()}
    return Pretraining(
        *(network, head, vocabulary, shards, held_out, settings, output),
        meta=meta,
        text_settings=text_settings,
        ranks=ranks,
    )


def _check_blocks(config: Mapping[str, Any]) -> None:
    refuse_unknown(config, list(BLOCKS), "the config")
    for name, known in BLOCKS.items():
        if known is not None:
            refuse_unknown(config.get(name, {}), known, f"[{name}]")


def _sizes(block: Optional[Mapping[str, Any]], init: Optional[BiLM], name: str) -> Dict[str, Any]:
    """The [bilm] block, checked before anything long begins."""
    sizes = dict(block or {})
    if init is None:
        BiLMConfig.from_dict(_with_words(sizes, 1))
        return sizes
    found = init.config.to_dict()
    asked = BiLMConfig.from_dict(_with_words(sizes, init.config.n_words or 1)).to_dict() if sizes else found
    different = [f"{key}: {asked[key]} in the block, {found[key]} there" for key in found if asked[key] != found[key]]
    if different:
        raise ValueError(Errors.EL148.format(init=name, different="; ".join(different)))
    return found


def _with_words(sizes: Mapping[str, Any], n_words: int) -> Dict[str, Any]:
    return dict(sizes) if sizes.get("char_cnn") else {**sizes, "n_words": n_words}


def _texts(name: str, config: Mapping[str, Any]) -> List[Shard]:
    place = config.get("paths", {}).get(name)
    if not place:
        raise ValueError(Errors.EL105.format(name=name, place=place, resolved="nothing"))
    places = [place] if isinstance(place, str) else list(place)
    if str(STDIN) in places:
        raise ValueError(Errors.EL149.format(name=name))
    return find_shards(places, **config.get("corpus", {}))


def _vocabulary(
    paths: Mapping[str, Any],
    words: Mapping[str, Any],
    init: Optional[BiLM],
    shards: Sequence[Shard],
    stored: Optional[Vocabulary],
) -> Vocabulary:
    known = init.vocabulary if init is not None and init.head is not None else None
    if paths.get("vocab"):
        with Path(paths["vocab"]).open(encoding="utf8") as lines:
            given = Vocabulary.from_lines(lines)
        if known is None or words.get("new_head") or given.words == known.words:
            return given
        n_different = len(set(given.words) ^ set(known.words)) or len(given)
        raise ValueError(Errors.EL147.format(found=n_different, wanted=len(known), init=paths.get("init")))
    if known is not None and not words.get("new_head"):
        return known
    if init is not None and init.config.n_words is not None and init.vocabulary is not None:
        return init.vocabulary  # its rows are words already
    if stored is not None:
        return stored
    _common.msg.info(f"Counting the words of {len(shards)} text(s)")
    n_words, min_count = words.get("n_words", 30000), int(words.get("min_count", 1))
    counts = count_vocabulary(
        read_shards(shards), n_words=None if n_words is None else int(n_words), min_count=min_count
    )
    _common.msg.info(f"Vocabulary of {len(counts.vocabulary()):,} words")
    return counts.vocabulary()


def _head(
    network: BiLMNetwork, vocabulary: Vocabulary, init: Optional[BiLM], settings: PretrainConfig, *, is_new: bool
) -> LMHead:
    if init is not None and init.head is not None and not is_new:
        return init.head
    return _new_head(network, len(vocabulary), settings.softmax)


def _new_head(network: BiLMNetwork, n_words: int, settings: SoftmaxConfig) -> LMHead:
    width = network.config.projection_width
    if settings.kind == "adaptive":
        return AdaptiveHead(n_words, width, settings.cutoffs, settings.div_value)
    return SoftmaxHead.tied(network.word_embedding) if settings.tie_weights else SoftmaxHead(n_words, width)
