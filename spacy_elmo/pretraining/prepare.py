"""Create a run from its config: texts, vocabulary, softmax, and a new or existing biLM."""

import sys
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import torch

from ..bilm.config import BiLMConfig
from ..bilm.network import AdaptiveHead, BiLMNetwork, LMHead, SoftmaxHead
from ..bilm.transformer import transformer_of
from ..corpora.lines import Counts
from ..corpora.places import OnMessage, ignore_message
from ..corpora.shards import Shard, find_shards, is_stream, read_shards
from ..corpora.sources import STDIN
from ..corpora.texts import PunctuationCheck, make_nlp, warn_of_raw_text
from ..errors import Errors, Warnings
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
from .run_config import PretrainConfig, RunConfig, SoftmaxConfig, check_config
from .run_folder import TEXT, check_results, stored_precision
from .stored_text import StoredText, hash_source, name_shards, open_text, store_text
from .trainer import is_emulated
from .vocabulary import choose_vocabulary, count_vocabulary

SENTENCES_TO_CHECK = 1000  # for tokens that end in punctuation
MANY_PASSES = 20
FEW_UPDATES = 300
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
    sources = [] if settings.paths.init is None else list_sources(settings.paths.init)
    check_results(output, [*sources, *([] if settings.paths.vocab is None else [settings.paths.vocab])])
    init = load_bilm(settings.paths.init) if settings.paths.init else None
    bilm = _choose_sizes(settings, init)
    meta = _make_meta(settings, init)
    shards, held_out = _read_texts(settings, meta, output, ranks, resume=resume, on_message=on_message, warn=warn)
    known_words = choose_vocabulary(init, settings.paths, is_new_head=settings.vocabulary.new_head, warn=warn)
    text = _tokenize(settings, shards, output, ranks, resume=resume, on_message=on_message)
    vocabulary, n_unknown = ranks.from_writer(
        _vocabulary(settings, init, known_words, text, on_message) if ranks.is_writer else None
    )
    pretraining = _fit_to_corpus(settings, len(vocabulary), text, output if resume else None, ranks, on_message)
    for warning in corpus_warnings(pretraining, n_predictions=text.n_predictions, n_unknown=n_unknown, is_new=not init):
        warn(warning)
    network, head = _make_network(settings, bilm, init, vocabulary, pretraining, on_message)
    run = Pretraining(
        *(network.to(ranks.device), head.to(ranks.device), vocabulary, text, held_out, pretraining, output),
        meta=meta,
        text_settings={"corpus": asdict(settings.corpus), "vocabulary": asdict(settings.vocabulary)},
        ranks=ranks,
    )
    _report_precision(
        settings.pretraining.precision, pretraining.precision, run.config.precision, ranks, on_message, warn
    )
    return run


def _choose_sizes(settings: RunConfig, init: Optional[BiLM]) -> BiLMConfig:
    """Sizes of the biLM, with any number of words. All that can be checked before texts are read is checked."""
    path, pretraining, softmax = settings.paths.init, settings.pretraining, settings.pretraining.softmax
    bilm = settings.bilm or BiLMConfig(n_words=1) if init is None else init.config
    if init is not None and settings.bilm is not None:
        different = _list_differences(_with_n_words(settings.bilm, init.config.n_words or 1).to_dict(), bilm.to_dict())
        if different:
            raise ValueError(
                f"The [bilm] block differs from the biLM '{path}' that training starts from: {different}. Remove the "
                "block to use the sizes of that biLM."
            )
    check_has_targets(bilm)
    _check_encoder_fit(pretraining, bilm)
    has_sparse_table = bilm.char_cnn is None and not softmax.tie_weights
    if pretraining.optimizer.sparse and softmax.kind not in ("sampled", "auto") and not has_sparse_table:
        raise ValueError(
            f'[pretraining.optimizer] sparse is true, but no gradient would be sparse: with softmax.kind = "'
            f'{softmax.kind}" every row has a gradient, and there is no separate word embedding. Set sparse = false, '
            'or softmax.kind = "sampled".'
        )
    if init is not None and init.head is not None and not settings.vocabulary.new_head:
        _check_head(init, init.head, softmax, str(path))
    return bilm


def _fit_to_corpus(
    settings: RunConfig, n_words: int, text: StoredText, resumed: Optional[Path], ranks: Ranks, on_message: OnMessage
) -> PretrainConfig:
    """Settings that depend on the text, or on the folder of the run that is resumed."""
    n_predictions = text.n_predictions
    pretraining = settings.pretraining.fit_to_corpus(n_words=n_words, n_predictions=n_predictions)
    if resumed is not None and pretraining.precision == "auto":  # as at the start of the run, on any processor
        first_precision = ranks.agree(lambda: stored_precision(resumed))
        pretraining = replace(pretraining, precision=first_precision or "auto")
    on_message(
        f"Training on {pretraining.max_tokens:,} predictions per direction: "
        f"{pretraining.max_tokens / n_predictions:.2f} passes through the text, {pretraining.n_updates:,} updates, "
        f"{pretraining.softmax.kind} softmax"
    )
    return pretraining


def _make_network(
    settings: RunConfig,
    bilm: BiLMConfig,
    init: Optional[BiLM],
    vocabulary: Vocabulary,
    pretraining: PretrainConfig,
    on_message: OnMessage,
) -> Tuple[BiLMNetwork, LMHead]:
    torch.manual_seed(pretraining.seed)
    network = init.network if init else BiLMNetwork(_with_n_words(bilm, len(vocabulary)))
    if init is not None and init.head is not None and not settings.vocabulary.new_head:
        return network, init.head
    return network, _make_head(network, vocabulary, pretraining.softmax, init, on_message)


def _make_meta(settings: RunConfig, init: Optional[BiLM]) -> Dict[str, Any]:
    meta = dict(settings.meta)
    if init is not None:
        meta["init"] = {"path": str(settings.paths.init), "meta": init.meta}
        for key in ("lang", "license"):  # what is trained further stays under its licence
            meta.update({key: init.meta[key]} if not meta.get(key) and init.meta.get(key) else {})
    return meta


def _report_precision(
    config_values: str, fitted: str, precision: str, ranks: Ranks, on_message: OnMessage, warn: OnMessage
) -> None:
    reason = ""
    if fitted != config_values:
        reason = ", as at the start of the run"
    elif config_values == "auto" and precision == "float32":
        reason = ", since this processor has no instructions for bfloat16"
    on_message(f"Matrix products in {precision}{reason}")
    if is_emulated(precision, ranks):
        warn(
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
            "continue a biLM (`python -m spacy elmo init-adaptation`). For a text of a few MB, "
            "`init-pretraining --text FILE` writes a config with smaller batches and more passes."
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


def _check_encoder_fit(config: PretrainConfig, bilm: BiLMConfig) -> None:
    """An encoder without state sees only one sentence, so a sentence has to fit into a chunk of a lane.

    RAISES (ValueError): With all problems.
    """
    if bilm.has_state:
        return
    longest, most = config.max_sentence_tokens, transformer_of(bilm).max_positions
    problems = []
    if not config.reset_blocks:
        problems.append("reset_blocks is false, should be true")
    if longest + 1 > config.unroll_steps:
        limit = f"at most unroll_steps - 1 ({config.unroll_steps - 1})"
        problems.append(f"max_sentence_tokens is {longest}, should be {limit}, since BOS and EOS are tokens too")
    if longest + 2 > most:
        limit = f"at most transformer.max_positions - 2 ({most - 2})"
        problems.append(f"max_sentence_tokens is {longest}, should be {limit}")
    if problems:
        raise ValueError(
            '[pretraining] does not fit a biLM with encoder = "transformer", which has no state to carry and '
            f"reads whole sentences: {'; '.join(problems)}. Correct these settings."
        )


def _check_head(init: BiLM, head: LMHead, settings: SoftmaxConfig, name: str) -> None:
    stored = {"kind": "adaptive" if isinstance(head, AdaptiveHead) else "sampled or full"}
    stored["tie_weights"] = str(is_head_shared(init.network, head)).lower()
    config_values: Dict[str, str] = {"kind": settings.kind if settings.kind == "adaptive" else "sampled or full"}
    config_values["tie_weights"] = str(settings.tie_weights).lower()
    if isinstance(head, AdaptiveHead) and settings.kind == "adaptive":
        stored.update(cutoffs=str(head.cutoffs), div_value=str(head.div_value))
        config_values.update(cutoffs=str(list(settings.cutoffs)), div_value=str(float(settings.div_value)))
    different = _list_differences(config_values, stored)
    if different:
        raise ValueError(
            f"[pretraining.softmax] differs from the softmax of the biLM '{name}' that training starts from: "
            f"{different}. Use the settings of that biLM, or set vocabulary.new_head = true to train a new softmax."
        )


def _list_differences(config_values: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    changes = find_changes(config_values, stored).items()
    return "; ".join(f"{name}: {in_block} in the block, {in_bilm} in the biLM" for name, (in_block, in_bilm) in changes)


def _with_n_words(bilm: BiLMConfig, n_words: int) -> BiLMConfig:
    return bilm if bilm.n_words is None else replace(bilm, n_words=n_words)


def _read_texts(
    settings: RunConfig,
    meta: Mapping[str, Any],
    output: Path,
    ranks: Ranks,
    *,
    resume: bool,
    on_message: OnMessage,
    warn: OnMessage,
) -> Tuple[List[Shard], Sentences]:
    """The training text and the sentences held out, both checked."""
    shards = _find_texts("train", settings, output, on_message)
    counts, pretraining = Counts(), settings.pretraining
    held_out = read_held_out(
        _find_texts("valid", settings, output, on_message),
        pretraining.eval_sentences,
        max_sentence_tokens=pretraining.max_sentence_tokens,
        counts=counts,
    )
    on_message(f"Held-out text: {counts.describe()}")
    # Of a stream, other ranks read nothing, and a resumed run nothing.
    can_look = not is_stream(shards) or not (resume or ranks.world_size > 1)
    first = list(islice(read_shards([shard.look() for shard in shards]), SENTENCES_TO_CHECK)) if can_look else []
    if not (first or is_stream(shards)):  # before it causes an error about a setting
        raise ValueError(Errors.EL101.format(source=name_shards(shards)))
    for name, sentences in (("train", first), ("valid", held_out)):
        check = PunctuationCheck()
        for tokens in sentences:
            check.add(tokens)
        warn_of_raw_text(check, [f"[paths] {name}"], settings.corpus.lang, warn, meta)
    return shards, held_out


def _find_texts(name: str, settings: RunConfig, output: Path, on_message: OnMessage) -> List[Shard]:
    place, corpus = getattr(settings.paths, name), settings.corpus
    if not place:
        raise ValueError(
            f"paths.{name} is {place!r}, but should be a text file (.txt, .jsonl, .spacy, .parquet; each also as "
            ".gz, .bz2, .xz or .zst), a folder of such files, a pattern such as 'corpus/*.txt.gz', or a data set "
            f"hf:NAME. Set it, for example with --paths.{name}."
        )
    if corpus.lang is not None:
        make_nlp(corpus.lang, option="--corpus.lang", instead="set it to null")  # its error names the setting
    shards = find_shards(place, **asdict(corpus), on_message=on_message, output=output)
    check_results(output, [shard.source.name for shard in shards if shard.source is not None])
    if name != "train" and (streams := [shard.source.name for shard in shards if shard.source and shard.source.stream]):
        kind = "stdin" if streams[0] == STDIN else "a pipe or a device"
        raise ValueError(
            f"paths.{name} is '{streams[0]}' ({kind}), which can be read only once, but a run reads the held-out text "
            "again when it is resumed, and in each process. Write it to a file first."
        )
    return shards


def _tokenize(
    settings: RunConfig, shards: List[Shard], output: Path, ranks: Ranks, *, resume: bool, on_message: OnMessage
) -> StoredText:
    """Open the tokenized text, which the first rank writes unless it is there already."""
    longest = settings.pretraining.max_sentence_tokens
    source = hash_source(shards, {**asdict(settings.corpus), "max_sentence_tokens": longest})
    is_shared = settings.paths.cache is not None and not is_stream(shards)
    folder = to_path(str(settings.paths.cache)) / source if is_shared else output / TEXT
    source, folder = ranks.from_writer((source, folder))

    def store(keep_waiting: Callable[[], None]) -> None:
        stored = None if is_stream(shards) and not resume else open_text(folder, source)
        if stored is not None:
            on_message(f"Training text, tokenized before: {stored.counts.describe()}")
            return

        def report(n_tokens: int) -> None:
            if sys.stderr is None or not sys.stderr.isatty():  # which shows a progress bar
                on_message(f"{n_tokens:,} tokens so far")
            keep_waiting()

        on_message(f"Tokenizing {name_shards(shards)}")
        stored = store_text(shards, folder, max_sentence_tokens=longest, source=source, report=report)
        size = sum(file.stat().st_size for file in folder.iterdir())
        on_message(f"Training text: {stored.counts.describe()}; stored in {folder}, {size / 1e6:,.1f} MB")

    ranks.wait_for_writer(store)
    stored = open_text(folder, source)
    if stored is None:
        raise ValueError(
            f"Process {ranks.rank} does not find the tokenized text in '{folder}'. All processes must see the same "
            "folder: use an output folder, or paths.cache, on a disk that all nodes share."
        )
    return stored


def _vocabulary(
    settings: RunConfig,
    init: Optional[BiLM],
    known: Optional[Vocabulary],
    text: StoredText,
    on_message: OnMessage,
) -> Tuple[Vocabulary, Optional[int]]:
    """The vocabulary, and the number of tokens of the text that are <UNK>, None if no softmax has to learn it."""
    words = settings.vocabulary
    if known is not None:
        is_kept = init is not None and init.head is not None and not words.new_head
        is_unknown = known.ids(text.words()) == known.unk_id
        return known, None if is_kept else int(text.word_counts[is_unknown].sum())
    counted = count_vocabulary(text.counted_words(), n_words=words.n_words, min_count=words.min_count)
    vocabulary = counted.vocabulary()
    on_message(f"Vocabulary of {len(vocabulary):,} words; {counted.unk_rate:.2%} of the tokens are <UNK>")
    return vocabulary, counted.n_unknown


def _make_head(
    network: BiLMNetwork, vocabulary: Vocabulary, settings: SoftmaxConfig, init: Optional[BiLM], on_message: OnMessage
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
        on_message(f"Softmax: {len(rows):,} of {len(vocabulary):,} words start from their weights in paths.init")
    return head
