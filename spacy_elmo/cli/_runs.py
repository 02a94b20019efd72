"""Create a pretraining run from the config of `elmo pretrain`: texts, vocabulary, and a new or existing biLM."""

from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch

from ..bilm.config import BiLMConfig
from ..bilm.lm_head import LMHead
from ..bilm.model import BiLMNetwork
from ..corpora.counting import count_vocabulary
from ..corpora.files import Tell, say_nothing
from ..corpora.find import describe_counts, find_shards
from ..corpora.lines import STDIN
from ..corpora.punctuation import PunctuationCheck
from ..corpora.sentences import make_nlp
from ..corpora.shards import Counts, Shard, read_shards
from ..errors import Errors
from ..inference.bilm import BiLM
from ..pretraining.config import PretrainConfig
from ..pretraining.corpus_fit import (
    corpus_warnings,
    count_predictions,
    describe_length,
    fit_to_corpus,
    has_unknown,
)
from ..pretraining.distributed import Ranks
from ..pretraining.run import Pretraining
from ..pretraining.run_folder import stored_vocabulary
from ..pretraining.validation import read_held_out
from ..text.vocabulary import Vocabulary
from ..weights import load_bilm
from ..weights.tensorflow import has_accumulators, read_accumulators
from . import _common
from ._run_config import RunSettings, check_config
from ._run_words import check_head, make_head, refuse_useless_sparse, words_of

SENTENCES_TO_CHECK = 1000  # for tokens that end in punctuation
# Counts of the whole training text, and the number of its tokens that are <UNK> (1 for any); None if not counted.
Counted = Tuple[Optional[Counts], Optional[int]]


def make_run(config: Mapping[str, Any], output: Path, ranks: Ranks, *, resume: bool = False) -> Pretraining:
    """Check settings, find texts, count the vocabulary, create or load the biLM.

    config (Mapping[str, Any]): Blocks `paths`, `corpus`, `vocabulary`, `bilm`, `pretraining`, `meta`.
    output (Path): Folder of the run.
    ranks (Ranks): This process and its communication with the others.
    resume (bool): Use the vocabulary of the run in the folder, if there is one, instead of counting words.
    RETURNS (Pretraining): The run, not started.
    RAISES (ValueError): See `check_config`; EL101 for a text without sentences, EL105 for missing paths, EL147,
        EL148 and EL171 to EL175 if the biLM to start from has other words, sizes or another softmax, EL176 for settings
        without effect, EL178 for an output that cannot be a folder, EL326 if accumulators cannot be taken over.
    """
    settings = check_config(config)
    _common.check_output_folder(output)
    ranks.lanes(settings.pretraining.batch_size)
    tell, warn = (_common.msg.info, _common.msg.warn) if ranks.is_writer else (say_nothing, say_nothing)
    init, sizes = _load_init(settings)
    sums = _accumulators(settings, init, tell)
    shards, held_out = _read_texts(settings, tell, warn)
    stored = stored_vocabulary(output) if resume and ranks.is_writer else None
    vocabulary, counted = ranks.from_writer(_vocabulary(settings, init, shards, stored) if ranks.is_writer else None)
    pretraining, n_predictions = _fit(settings.pretraining, vocabulary, counted, shards, tell, warn)
    torch.manual_seed(pretraining.seed)
    network = _new_network(sizes, len(vocabulary)) if init is None else init.network
    network.to(ranks.device)
    head = _head(network, vocabulary, init, pretraining, tell, is_new=settings.words.new_head).to(ranks.device)
    run = Pretraining(
        *(network, head, vocabulary, shards, held_out, pretraining, output),
        meta=_meta(settings, init),
        text_settings={"corpus": asdict(settings.corpus), "vocabulary": asdict(settings.words)},
        ranks=ranks,
        n_predictions=n_predictions,
    )
    if sums is not None:
        run.trainer.optimizer.take_accumulators(sums)
    return run


def _load_init(settings: RunSettings) -> Tuple[Optional[BiLM], Dict[str, Any]]:
    """RETURNS (Tuple[Optional[BiLM], Dict[str, Any]]): The biLM to start from, if there is one, and the sizes."""
    path, pretraining = settings.paths.init, settings.pretraining
    init = load_bilm(path) if path else None
    sizes = _sizes(settings.bilm, init, str(path))
    refuse_useless_sparse(pretraining, is_word_input=not sizes.get("char_cnn"))
    if init is not None and not settings.words.new_head:
        check_head(init, pretraining.softmax, str(path))
    return init, sizes


def _meta(settings: RunSettings, init: Optional[BiLM]) -> Dict[str, Any]:
    if init is None:
        return dict(settings.meta)
    return {**settings.meta, "init": {"path": str(settings.paths.init), "meta": init.meta}}


def _new_network(sizes: Dict[str, Any], n_words: int) -> BiLMNetwork:
    return BiLMNetwork(BiLMConfig.from_dict(_with_words(sizes, n_words)))


def _accumulators(settings: RunSettings, init: Optional[BiLM], tell: Tell) -> Optional[Dict[str, Any]]:
    """Adagrad's sums of squares in the TensorFlow checkpoint to start from, if they are wanted."""
    path, optimizer = settings.paths.init, settings.pretraining.optimizer
    if optimizer.init_accumulators:
        if init is None or settings.words.new_head:
            reason = "there is no biLM to start from" if init is None else "vocabulary.new_head makes a new softmax"
            raise ValueError(Errors.EL326.format(path=path, reason=reason))
        return read_accumulators(str(path), init, initial=optimizer.initial_accumulator)
    if init is not None and optimizer.name == "adagrad" and has_accumulators(str(path)):
        tell(f"{path} has Adagrad's accumulators; pretraining.optimizer.init_accumulators = true takes them over")
    return None


def _fit(
    config: PretrainConfig,
    vocabulary: Vocabulary,
    counted: Counted,
    shards: Sequence[Shard],
    tell: Tell,
    warn: Tell,
) -> Tuple[PretrainConfig, Optional[int]]:
    """Fit the settings to this corpus and report them; also return the predictions of one pass if they are known."""
    counts, n_unknown = counted
    is_known = counts is not None or config.max_passes > 0
    n_predictions = count_predictions(shards, counts) if is_known else None
    config = fit_to_corpus(config, n_words=len(vocabulary), n_predictions=n_predictions)
    if n_predictions is not None:
        tell(describe_length(config, n_predictions))
    for text in corpus_warnings(config, n_predictions=n_predictions, n_unknown=n_unknown):
        warn(text)
    return config, n_predictions


def _sizes(block: Dict[str, Any], init: Optional[BiLM], name: str) -> Dict[str, Any]:
    """The [bilm] block, validated before texts are read."""
    if init is None:
        BiLMConfig.from_dict(_with_words(block, 1))
        return block
    found = init.config.to_dict()
    asked = BiLMConfig.from_dict(_with_words(block, init.config.n_words or 1)).to_dict() if block else found
    different = _common.describe_differences(asked, found)
    if different:
        raise ValueError(Errors.EL148.format(init=name, different="; ".join(different)))
    return found


def _with_words(sizes: Mapping[str, Any], n_words: int) -> Dict[str, Any]:
    return dict(sizes) if sizes.get("char_cnn") else {**sizes, "n_words": n_words}


def _read_texts(settings: RunSettings, tell: Tell, warn: Tell) -> Tuple[List[Shard], List[List[str]]]:
    """RETURNS (Tuple[List[Shard], List[List[str]]]): The training text and the sentences held out, both checked."""
    shards = _texts("train", settings, tell)
    held_out = _held_out(settings, tell)
    _look_at("train", _first_sentences(shards), settings, warn)
    _look_at("valid", held_out, settings, warn)
    return shards, held_out


def _texts(name: str, settings: RunSettings, tell: Tell) -> List[Shard]:
    place, corpus = getattr(settings.paths, name), settings.corpus
    if not place:
        raise ValueError(Errors.EL105.format(name=name, place=place))
    places = [place] if isinstance(place, str) else list(place)
    if str(STDIN) in places:
        raise ValueError(Errors.EL149.format(name=name))
    if corpus.lang is not None:
        make_nlp(corpus.lang, option="--corpus.lang", instead="set it to null")  # its error names the setting
    return find_shards(places, lang=corpus.lang, format=corpus.format, running_text=corpus.running_text, tell=tell)


def _held_out(settings: RunSettings, tell: Tell) -> List[List[str]]:
    counts, pretraining = Counts(), settings.pretraining
    held_out = read_held_out(
        _texts("valid", settings, tell),
        pretraining.eval_sentences,
        max_sentence_tokens=pretraining.max_sentence_tokens,
        counts=counts,
    )
    tell(f"Held-out text: {describe_counts(counts)}")
    return held_out


def _first_sentences(shards: Sequence[Shard]) -> List[List[str]]:
    """RAISES (ValueError): EL101 for a text without sentences, before it causes an error about a setting."""
    sentences = list(islice(read_shards(shards), SENTENCES_TO_CHECK))
    if not sentences:
        raise ValueError(Errors.EL101.format(source=", ".join(shard.name for shard in shards)))
    return sentences


def _look_at(name: str, sentences: Sequence[List[str]], settings: RunSettings, warn: Tell) -> None:
    check = PunctuationCheck()
    for tokens in sentences:
        check.add(tokens)
    _common.warn_of_raw_text(check, [f"[paths] {name}"], settings.corpus.lang, warn, settings.meta)


def _vocabulary(
    settings: RunSettings, init: Optional[BiLM], shards: Sequence[Shard], stored: Optional[Vocabulary]
) -> Tuple[Vocabulary, Counted]:
    """The vocabulary, and what was counted; for a new softmax at least whether a token is <UNK>."""
    words = settings.words
    known = words_of(init, settings.paths, is_new_head=words.new_head) or stored
    if known is not None:
        is_new = stored is None and (init is None or init.head is None or words.new_head)
        return known, (None, int(has_unknown(shards, known)) if is_new else None)
    _common.msg.info(f"Counting the words of {len(shards)} text(s)")
    counts = Counts()
    found = count_vocabulary(read_shards(shards, counts), n_words=words.n_words, min_count=words.min_count)
    vocabulary = found.vocabulary()
    _common.msg.info(f"Vocabulary of {len(vocabulary):,} words; {found.unk_rate:.2%} of the tokens are <UNK>")
    return vocabulary, (counts, found.n_unknown)


def _head(
    network: BiLMNetwork,
    vocabulary: Vocabulary,
    init: Optional[BiLM],
    settings: PretrainConfig,
    tell: Tell,
    *,
    is_new: bool,
) -> LMHead:
    if init is not None and init.head is not None and not is_new:
        return init.head
    return make_head(network, vocabulary, settings.softmax, init, tell)
