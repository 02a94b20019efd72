"""Create a run from its config: texts, vocabulary, softmax, and a new or existing biLM."""

import sys
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

import torch

from ..bilm.config import BiLMConfig
from ..bilm.network import AdaptiveHead, BiLMNetwork, LMHead, SoftmaxHead
from ..corpora.lines import Counts
from ..corpora.places import OnMessage, ignore_message
from ..corpora.shards import Shard, find_shards, is_stream, read_shards
from ..corpora.sources import STDIN
from ..corpora.texts import PunctuationCheck, make_nlp, warn_of_raw_text
from ..errors import Warnings
from ..files import to_path
from ..inference.bilm import BiLM
from ..inference.word_encoder import check_has_targets
from ..text.words import Vocabulary
from ..util import find_changes
from ..weights import load_bilm
from ..weights.load import list_sources
from ..weights.tensor_map import is_head_shared
from .data import Sentences, read_held_out
from .distributed import Ranks
from .run import Pretraining
from .run_config import BiLMBlock, PretrainConfig, RunConfig, SoftmaxConfig, check_config
from .run_folder import TEXT, check_results, stored_precision
from .stored_text import StoredText, hash_source, name_shards, open_text, store_text
from .trainer import is_emulated
from .vocabulary import choose_vocabulary, count_vocabulary

SENTENCES_TO_CHECK = 1000  # for tokens that end in punctuation
MANY_PASSES = 20
FEW_UPDATES = 300
SMALL_BATCH = 16  # batch_size of the config for a text of a few MB
SMALL_CONFIG = (
    " For a text of a few MB, `python -m spacy elmo init-pretraining --text FILE` writes a config with smaller batches "
    "and more passes."
)
# Updates of en_elmo_sm, AMD EPYC (family 25, model 17): bfloat16 2 with AVX-512 and 15 with AVX2, float16 16 with both.
SLOWDOWN = "2 to 16"


def make_run(
    config: Mapping[str, Any],
    output: Path,
    ranks: Ranks,
    *,
    resume: bool = False,
    on_message: OnMessage = ignore_message,
    warn: OnMessage = ignore_message,
) -> Pretraining:
    """Check settings, find texts, tokenize the training text, choose the vocabulary, create or load the biLM.

    config (Mapping[str, Any]): Blocks `paths`, `corpus`, `vocabulary`, `bilm`, `pretraining`, `meta`.
    resume (bool): Use the text that was read from stdin, if there is one, instead of reading it again.
    on_message (OnMessage), warn (OnMessage): Called on the first rank only.
    RAISES (ValueError): See `check_config` and `choose_vocabulary`; EL101 for a text without sentences; for missing
        paths, for a biLM to start from that has other sizes or another softmax, for settings without effect, and if
        what is read is a result of the run that is replaced.
    """
    settings = check_config(config)
    ranks.lanes(settings.pretraining.batch_size)
    if not ranks.is_writer:
        on_message = warn = ignore_message
    setup = _Setup(settings, output, ranks, resume, on_message, warn)
    init = _load_init(setup)
    _check_network(settings, init)
    meta = _make_meta(settings, init)
    shards, held_out = _read_texts(setup, meta)
    known_words = choose_vocabulary(init, settings.paths, is_new_head=settings.vocabulary.new_head, warn=warn)
    text = _tokenize(setup, shards)
    words = _count_words(setup, init, known_words, text) if ranks.is_writer else None
    vocabulary, n_unknown = ranks.from_writer(words)
    pretraining = _fit_to_corpus(setup, len(vocabulary), text)
    for warning in corpus_warnings(pretraining, n_predictions=text.n_predictions, n_unknown=n_unknown, is_new=not init):
        warn(warning)
    network, head = _make_network(setup, init, vocabulary, pretraining)
    run = Pretraining(
        *(network.to(ranks.device), head.to(ranks.device), vocabulary, text, held_out, pretraining, output),
        meta=meta,
        text_settings={"corpus": asdict(settings.corpus), "vocabulary": asdict(settings.vocabulary)},
        ranks=ranks,
    )
    _report_precision(setup, pretraining.precision, run.config.precision)
    return run


@dataclass(frozen=True)
class _Setup:
    """What the steps of `make_run` have in common; see there."""

    settings: RunConfig
    output: Path
    ranks: Ranks
    resume: bool
    on_message: OnMessage
    warn: OnMessage


def _load_init(setup: _Setup) -> Optional[BiLM]:
    """The biLM to start from, after a check that the run replaces neither it nor the vocabulary file."""
    paths = setup.settings.paths
    sources = [] if paths.init is None else list_sources(paths.init)
    check_results(setup.output, [*sources, *([] if paths.vocab is None else [paths.vocab])])
    return load_bilm(paths.init) if paths.init else None


def _check_network(settings: RunConfig, init: Optional[BiLM]) -> None:
    """All that can be checked before texts are read. ValueError with all problems."""
    if init is not None:
        check_has_targets(init.config)
    bilm = (settings.bilm or BiLMBlock()) if init is None else init.config
    problems = [*_find_sparse_problems(settings.pretraining, bilm), *_find_encoder_problems(settings.pretraining, bilm)]
    if init is not None:
        problems += _find_init_problems(settings, init)
    if problems:
        raise ValueError(" ".join(problems))


def _find_init_problems(settings: RunConfig, init: BiLM) -> Iterator[str]:
    if settings.bilm is not None:
        block = {**settings.bilm.to_dict(), "n_words": init.config.n_words}
        if different := _list_differences(block, init.config.to_dict()):
            yield (
                f"The [bilm] block differs from the biLM '{settings.paths.init}' that training starts from: "
                f"{different}. Remove the block to use the sizes of that biLM."
            )
    if init.head is None or settings.vocabulary.new_head:
        return
    if different := _compare_heads(init, init.head, settings.pretraining.softmax):
        yield (
            f"[pretraining.softmax] differs from the softmax of the biLM '{settings.paths.init}' that training starts "
            f"from: {different}. Use the settings of that biLM, or set vocabulary.new_head = true to train a new "
            "softmax."
        )


def _compare_heads(init: BiLM, head: LMHead, settings: SoftmaxConfig) -> str:
    block = {"kind": "adaptive" if settings.kind == "adaptive" else "sampled or full"}
    stored = {"kind": "adaptive" if isinstance(head, AdaptiveHead) else "sampled or full"}
    block["tie_weights"] = str(settings.tie_weights).lower()
    stored["tie_weights"] = str(is_head_shared(init.network, head)).lower()
    if isinstance(head, AdaptiveHead) and settings.kind == "adaptive":
        block.update(cutoffs=str(list(settings.cutoffs)), div_value=str(float(settings.div_value)))
        stored.update(cutoffs=str(head.cutoffs), div_value=str(head.div_value))
    return _list_differences(block, stored)


def _list_differences(block: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    changes = find_changes(block, stored).items()
    return "; ".join(f"{name}: {in_block} in the block, {in_bilm} in the biLM" for name, (in_block, in_bilm) in changes)


def _find_sparse_problems(config: PretrainConfig, bilm: BiLMConfig) -> Iterator[str]:
    has_sparse_table = bilm.char_cnn is None and not config.softmax.tie_weights
    if config.optimizer.sparse and config.softmax.kind not in ("sampled", "auto") and not has_sparse_table:
        yield (
            f'[pretraining.optimizer] sparse is true, but no gradient would be sparse: with softmax.kind = "'
            f'{config.softmax.kind}" every row has a gradient, and there is no separate word embedding. Set sparse = '
            'false, or softmax.kind = "sampled".'
        )


def _find_encoder_problems(config: PretrainConfig, bilm: BiLMConfig) -> Iterator[str]:
    """An encoder without state sees only one sentence, so a sentence has to fit into a chunk of a lane."""
    if bilm.has_state or bilm.transformer is None:
        return
    longest, n_steps, n_positions = config.max_sentence_tokens, config.unroll_steps, bilm.transformer.max_positions
    limits = (
        (n_steps - 1, "unroll_steps - 1", ", since BOS and EOS are tokens too"),
        (n_positions - 2, "transformer.max_positions - 2", ""),
    )
    problems = [] if config.reset_blocks else ["reset_blocks is false, should be true"]
    problems += [
        f"max_sentence_tokens is {longest}, should be at most {name} ({limit}){reason}"
        for limit, name, reason in limits
        if longest > limit
    ]
    if problems:
        yield (
            '[pretraining] does not fit a biLM with encoder = "transformer", which has no state to carry and reads '
            f"whole sentences: {'; '.join(problems)}. Correct these settings."
        )


def _make_meta(settings: RunConfig, init: Optional[BiLM]) -> Dict[str, Any]:
    meta = dict(settings.meta)
    if init is not None:
        meta["init"] = {"path": str(settings.paths.init), "meta": init.meta}
        for key in ("lang", "license"):  # what is trained further stays under its licence
            meta.update({key: init.meta[key]} if not meta.get(key) and init.meta.get(key) else {})
    return meta


def _read_texts(setup: _Setup, meta: Mapping[str, Any]) -> Tuple[List[Shard], Sentences]:
    """The training text and the sentences held out; a warning if one of them is raw text."""
    settings, counts = setup.settings, Counts()
    shards = _find_texts(setup, "train")
    held_out = read_held_out(
        _find_texts(setup, "valid"),
        settings.pretraining.eval_sentences,
        max_sentence_tokens=settings.pretraining.max_sentence_tokens,
        counts=counts,
    )
    setup.on_message(f"Held-out text: {counts.describe()}")
    # Of a stream, other ranks read nothing, and a resumed run nothing.
    can_look = not is_stream(shards) or not (setup.resume or setup.ranks.world_size > 1)
    first = islice(read_shards([shard.look() for shard in shards]), SENTENCES_TO_CHECK) if can_look else []
    for name, sentences in (("train", first), ("valid", held_out)):
        check = PunctuationCheck()
        for tokens in sentences:
            check.add(tokens)
        warn_of_raw_text(check, [f"[paths] {name}"], settings.corpus.lang, setup.warn, meta)
    return shards, held_out


def _find_texts(setup: _Setup, name: str) -> List[Shard]:
    place, corpus = getattr(setup.settings.paths, name), setup.settings.corpus
    if not place:
        raise ValueError(
            f"paths.{name} is {place!r}, but should be a text file (.txt, .jsonl, .spacy, .parquet; each also as "
            ".gz, .bz2, .xz or .zst), a folder of such files, a pattern such as 'corpus/*.txt.gz', or a data set "
            "hf:NAME."
        )
    if corpus.lang is not None:
        make_nlp(corpus.lang, name="corpus.lang", instead="set it to null")  # its error names the setting
    shards = find_shards(place, **asdict(corpus), on_message=setup.on_message, output=setup.output)
    sources = [shard.source for shard in shards if shard.source is not None]
    check_results(setup.output, [source.name for source in sources])
    streams = [source.name for source in sources if source.stream]
    if name != "train" and streams:
        kind = "stdin" if streams[0] == STDIN else "a pipe or a device"
        raise ValueError(
            f"paths.{name} is '{streams[0]}' ({kind}), which can be read only once, but a run reads the held-out text "
            "again when it is resumed, and in each process. Write it to a file first."
        )
    return shards


def _tokenize(setup: _Setup, shards: List[Shard]) -> StoredText:
    """Open the tokenized text, which the first rank writes unless it is there already."""
    settings, longest = setup.settings, setup.settings.pretraining.max_sentence_tokens
    source = hash_source(shards, {**asdict(settings.corpus), "max_sentence_tokens": longest})
    is_shared = settings.paths.cache is not None and not is_stream(shards)
    folder = to_path(str(settings.paths.cache)) / source if is_shared else setup.output / TEXT
    source, folder = setup.ranks.from_writer((source, folder))
    setup.ranks.wait_for_writer(lambda keep_waiting: _store_text(setup, shards, folder, source, keep_waiting))
    stored = open_text(folder, source)
    if stored is None:
        raise ValueError(
            f"Process {setup.ranks.rank} does not find the tokenized text in '{folder}'. All processes must see the "
            "same folder: use an output folder, or paths.cache, on a disk that all nodes share."
        )
    return stored


def _store_text(
    setup: _Setup, shards: List[Shard], folder: Path, source: str, keep_waiting: Callable[[], None]
) -> None:
    on_message = setup.on_message
    stored = None if is_stream(shards) and not setup.resume else open_text(folder, source)
    if stored is not None:
        on_message(f"Training text, tokenized before: {stored.counts.describe()}")
        return

    def report(n_tokens: int) -> None:
        if sys.stderr is None or not sys.stderr.isatty():  # which shows a progress bar
            on_message(f"{n_tokens:,} tokens so far")
        keep_waiting()

    on_message(f"Tokenizing {name_shards(shards)}")
    longest = setup.settings.pretraining.max_sentence_tokens
    stored = store_text(shards, folder, max_sentence_tokens=longest, source=source, report=report)
    size = sum(file.stat().st_size for file in folder.iterdir())
    on_message(f"Training text: {stored.counts.describe()}; stored in {folder}, {size / 1e6:,.1f} MB")


def _count_words(
    setup: _Setup, init: Optional[BiLM], known: Optional[Vocabulary], text: StoredText
) -> Tuple[Vocabulary, Optional[int]]:
    """The vocabulary, and the number of tokens of the text that are <UNK>, None if no softmax has to learn it."""
    words = setup.settings.vocabulary
    if known is not None:
        has_head = init is not None and init.head is not None and not words.new_head
        is_unknown = known.ids(text.words()) == known.unk_id
        return known, None if has_head else int(text.word_counts[is_unknown].sum())
    counted = count_vocabulary(text.counted_words(), n_words=words.n_words, min_count=words.min_count)
    vocabulary = counted.vocabulary()
    setup.on_message(f"Vocabulary of {len(vocabulary):,} words; {counted.unk_rate:.2%} of the tokens are <UNK>")
    return vocabulary, counted.n_unknown


def _fit_to_corpus(setup: _Setup, n_words: int, text: StoredText) -> PretrainConfig:
    """Settings that depend on the text, or on the folder of the run that is resumed."""
    n_predictions = text.n_predictions
    pretraining = setup.settings.pretraining.fit_to_corpus(n_words=n_words, n_predictions=n_predictions)
    if setup.resume and pretraining.precision == "auto":  # as at the start of the run, on any processor
        first_precision = setup.ranks.from_writer(stored_precision(setup.output))
        pretraining = replace(pretraining, precision=first_precision or "auto")
    setup.on_message(
        f"Training on {pretraining.max_tokens:,} predictions per direction: "
        f"{pretraining.max_tokens / n_predictions:.2f} passes through the text, {pretraining.n_updates:,} updates, "
        f"{pretraining.softmax.kind} softmax"
    )
    return pretraining


def _make_network(
    setup: _Setup, init: Optional[BiLM], vocabulary: Vocabulary, pretraining: PretrainConfig
) -> Tuple[BiLMNetwork, LMHead]:
    torch.manual_seed(pretraining.seed)
    if init is not None and init.head is not None and not setup.settings.vocabulary.new_head:
        return init.network, init.head
    network = init.network if init else BiLMNetwork((setup.settings.bilm or BiLMBlock()).with_words(len(vocabulary)))
    return network, _make_head(setup, network, vocabulary, pretraining.softmax, init)


def _make_head(
    setup: _Setup,
    network: BiLMNetwork,
    vocabulary: Vocabulary,
    settings: SoftmaxConfig,
    init: Optional[BiLM],
) -> LMHead:
    """A new softmax. A full or sampled one starts from the weights of the words that the softmax of `init` has, too."""
    width = network.config.projection_width
    if settings.kind == "adaptive":
        return AdaptiveHead(len(vocabulary), width, settings.cutoffs, settings.div_value)
    if settings.tie_weights:
        return SoftmaxHead.tied(network.word_embedding)
    head = SoftmaxHead(len(vocabulary), width)
    if init is not None and isinstance(init.head, SoftmaxHead) and init.vocabulary is not None:
        known = {word: row for row, word in enumerate(init.vocabulary.words)}
        rows = [row for row, word in enumerate(vocabulary.words) if word in known]
        head.copy_rows(init.head, rows, [known[vocabulary.words[row]] for row in rows])
        setup.on_message(f"Softmax: {len(rows):,} of {len(vocabulary):,} words start from their weights in paths.init")
    return head


def _report_precision(setup: _Setup, fitted: str, precision: str) -> None:
    """fitted (str): After `_fit_to_corpus`; may be "auto".
    precision (str): That of the run.
    """
    chosen, reason = setup.settings.pretraining.precision, ""
    if fitted != chosen:
        reason = ", as at the start of the run"
    elif chosen == "auto" and precision == "float32":
        reason = ", since this processor has no instructions for bfloat16"
    setup.on_message(f"Matrix products in {precision}{reason}")
    if is_emulated(precision, setup.ranks):
        setup.warn(
            f"This processor emulates {precision}, so that training takes {SLOWDOWN} times as long as in float32. A "
            'new run with pretraining.precision = "auto" does not.'
        )


def corpus_warnings(
    config: PretrainConfig, *, n_predictions: int = 0, n_unknown: Optional[int] = None, is_new: bool = False
) -> List[str]:
    """Find settings that are unsuitable for the corpus.

    config (PretrainConfig): From `fit_to_corpus`.
    n_predictions (int): Predictions per direction of one pass, 0 if unknown.
    n_unknown (Optional[int]): Tokens of the corpus that are `<UNK>`, None if that does not matter.
    RETURNS (List[str]): For few updates, a warm-up of more than half of the run, a corpus without `<UNK>` (WL102), many
        passes.
    """
    warnings = []
    if is_new and config.n_updates < FEW_UPDATES:
        warnings.append(
            f"The run ends after {config.n_updates:,} updates, and a biLM that starts from random weights learns "
            f"little in fewer than {FEW_UPDATES}. Raise max_passes or max_tokens, lower batch_size, take more text, or "
            "continue a biLM (`python -m spacy elmo init-adaptation`)."
            + (SMALL_CONFIG if config.batch_size > SMALL_BATCH else "")
        )
    is_slanted = config.schedule.name == "slanted_triangular"
    if 2 * config.warmup_updates > config.n_updates and not is_slanted:
        warnings.append(
            f"The warm-up of the learning rate takes {config.warmup_updates} of the {config.n_updates} updates of this "
            "run, so the model learns little. Set schedule.warmup_steps = null (schedule.warmup_share then applies, 5 "
            "% of the run), fewer warmup_steps, a smaller batch_size, or more max_passes."
        )
    if n_unknown == 0:
        warnings.append(Warnings.WL102)
    if n_predictions and config.max_tokens > MANY_PASSES * n_predictions and not config.patience:
        warnings.append(
            f"The run reads the text {round(config.max_tokens / n_predictions)} times, and a biLM overfits after a few "
            "passes. Lower max_tokens, set max_passes instead, or set patience to stop the run when the held-out "
            "perplexity no longer falls."
        )
    return warnings
