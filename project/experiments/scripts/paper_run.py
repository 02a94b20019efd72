"""One training of an experiment: its config, its share of the data, its scores."""

import platform
import random
import shutil
import tempfile
import time
from bisect import bisect_left
from collections import defaultdict
from contextlib import nullcontext
from copy import deepcopy
from datetime import datetime, timezone
from functools import reduce
from importlib.metadata import version
from itertools import accumulate
from math import ceil
from operator import getitem
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import spacy
import srsly
from datasets import UNDIVIDED, divide
from minilm import Tuning, cache_frozen_transformer, digest_minilm, find_minilm, make_transformer, train_minilm
from named_configs import read_any_config
from paper_experiments import Options, Run
from pretrain import BILM, WEIGHTS, add_pretraining, load_source, source_dir
from shared import CONFIG_DIR, digest_config, find_processor, identify, train_pipeline, write_json
from spacy.language import Language
from spacy.scorer import Scorer
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus, Example
from spacy.vocab import Vocab
from thinc.api import Config

from spacy_elmo.pipeline.layer_weights import find_task_mixes

RESULT = "result.json"  # in the folder of a kept pipeline, written last: without it the folder is not complete
DEV_SENTENCES = 500  # at most, beside few training sentences: nobody who labels 100 has a large development part
SMALL_TEXT = CONFIG_DIR / "pretrain_small_text.cfg"  # pretrains the biLM DATASET_small of a treebank
SHUFFLE_SEED = 0  # of the training docs of all seeds, so that shares contain each other
BEST = Path("out", "model-best")  # the best pipeline, in the folder of a training
LEARN_RATE = "training.optimizer.learn_rate"
MULTILABEL = "textcat_multilabel"
THRESHOLDS = tuple(number / 20 for number in range(1, 11))  # 0.05 to 0.5
LAYER_CACHE_MB = 8192  # all layers of the largest data set, so that no epoch computes them again
PACKAGES = ("spacy-elmo", "spacy", "thinc", "torch", "numpy")


def run_experiment(
    run: Run, seed: int, corpus_dir: Path, options: Options, *, pipeline_dir: Optional[Path] = None
) -> Dict[str, Any]:
    """Train with early stopping, and score the best pipeline of the development data on the test data. The pipeline is
    kept, with the result, in a folder if one is given.

    RETURNS (Dict[str, Any]): What is stored: settings, scores on the test data (0 to 1) and words per second of CPU
        time there, the mixes of the layers, the best development score and its update, the development scores by
        update, CPU seconds, training docs and words, processor, versions.
    """
    settings = describe_settings(run, seed, options)
    with tempfile.TemporaryDirectory() as folder:
        measured = _train_and_score(run, seed, Path(folder), corpus_dir, options)
        result = {
            "settings": settings,
            **measured,
            "finished_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "processor": find_processor(),
            "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
        }
        if pipeline_dir is not None:
            shutil.rmtree(pipeline_dir, ignore_errors=True)
            shutil.copytree(Path(folder) / BEST, pipeline_dir)
            write_json(pipeline_dir / RESULT, result)
    return result


def load_kept(folder: Path) -> Optional[Dict[str, Any]]:
    """RETURNS (Optional[Dict[str, Any]]): The result of a kept pipeline; None if there is none."""
    path = folder / RESULT
    return srsly.read_json(path) if path.is_file() else None


def describe_settings(run: Run, seed: int, options: Options) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): What a result depends on, without paths: a biLM is named by its last part and the
    digest of its weights, and of the config that pretrained it if that is the biLM of a treebank; an alternative by its
    record, a config by its file and digest. RAISES (FileNotFoundError): Without them.
    """
    bilm = identify(options.bilm) if run.has_elmo and not run.source else {"bilm": None}
    has_own_text = bilm["bilm"] == f"{run.dataset}_small"
    return {
        "task": run.task,
        "dataset": run.dataset,
        "condition": run.condition,
        "config": run.config,
        "config_digest": digest_config(Config() if run.is_classifier else make_config(run, options)),
        "placement": run.placement,
        "share": run.share,
        "seed": seed,
        **bilm,
        **({"pretraining": digest_config(Config().from_disk(SMALL_TEXT, interpolate=False))} if has_own_text else {}),
        **({"source": load_source(options.alternatives, run.source, run.config)} if run.source else {}),
        **({"minilm_digest": digest_minilm(find_minilm(options.minilm))} if run.has_minilm else {}),
        **({"n_sentences": run.n_sentences, "dev_sentences": DEV_SENTENCES} if run.n_sentences else {}),
        # All seeds drew as seed 0 before; its results stay valid.
        **({"draw_seed": seed} if seed and (run.n_sentences or run.dataset in UNDIVIDED) else {}),
        **({"per_category": run.per_category} if run.per_category else {}),
        **options.training_settings(run),
    }


def make_config(run: Run, options: Options) -> Config:
    """RETURNS (Config): The config of the run, not interpolated, before the overrides."""
    config = read_any_config(run.config, options.bilm)
    if run.is_starter:
        return config
    if run.placement is not None:
        _place(config, run.component, run.placement)
    for name in run.without:
        config["nlp"]["pipeline"].remove(name)
        del config["components"][name]
    config["training"]["optimizer"]["learn_rate"] = options.training_settings(run)[LEARN_RATE]
    config["training"]["optimizer"]["use_averages"] = False  # as everywhere, unless the settings of the run say so
    config["initialize"]["after_init"] = None  # it would choose initial_gamma; the runs of texts differ in it
    for name, value in run.settings:
        if run.has_minilm and isinstance(value, dict):  # a block, which an override cannot replace
            *path, last = name.split(".")
            reduce(getitem, path, config)[last] = value
    if run.source == "tok2vec":
        add_pretraining(config)
    elif run.source == "floret":
        first = config["nlp"]["pipeline"][0]  # the shared tok2vec, or the only component, with one inside
        model = config["components"][first]["model"]
        if first == "textcat":
            model["tok2vec"] = read_any_config("baseline_ner.cfg")["components"]["ner"]["model"]["tok2vec"]["embed"]
            model["tok2vec"]["include_static_vectors"] = True
        else:
            (model if first == "tok2vec" else model["tok2vec"])["embed"]["include_static_vectors"] = True
    return config


def make_overrides(run: Run, seed: int, work_dir: Path, options: Options) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Overrides of the config: paths, seed, log, training and the settings of the run."""
    overrides: Dict[str, Any] = {
        "paths.train": str(work_dir / "train.spacy"),
        "paths.dev": str(work_dir / "dev.spacy"),
        "system.seed": seed,
        "training.logger.@loggers": "spacy.ConsoleLogger.v3",
        "training.logger.output_file": str(work_dir / "log.jsonl"),
        "training.logger.progress_bar": None,
        **options.training_settings(run),
    }
    overrides.pop(LEARN_RATE, None)  # a part of the config, in its digest
    if run.has_minilm:
        overrides = {name: value for name, value in overrides.items() if not isinstance(value, dict)}
        overrides["paths.minilm"] = str(make_transformer(find_minilm(options.minilm)))
    if run.has_elmo:
        overrides["paths.bilm"] = options.bilm
        overrides["components.elmo.model.layer_cache_mb"] = LAYER_CACHE_MB
    if run.source:
        folder = source_dir(options.alternatives, run.source, run.config)
        paths = {"floret": ("vectors", ""), "tok2vec": ("init_tok2vec", WEIGHTS), "bilm": ("bilm", BILM)}
        name, file = paths[run.source]
        overrides[f"paths.{name}"] = str(folder / file)
    return overrides


def write_share(
    source: Path, target: Path, share: int, *, n_sentences: int = 0, per_category: int = 0, seed: int = 0
) -> Tuple[int, int]:
    """Write the first docs of a shuffled file; or, shuffled with the seed, those with the first `n_sentences`, or the
    first of each category.

    RETURNS (Tuple[int, int]): Number of docs and words written.
    """
    docs = list(DocBin().from_disk(source).get_docs(Vocab()))
    random.Random(seed if n_sentences or per_category else SHUFFLE_SEED).shuffle(docs)
    docs = docs[: ceil(len(docs) * share / 100)]
    if n_sentences:
        sizes = [len(list(doc.sents)) if doc.has_annotation("SENT_START") else 1 for doc in docs]
        docs = docs[: bisect_left(list(accumulate(sizes)), n_sentences) + 1]
    if per_category:
        by_category: Dict[str, List[Doc]] = defaultdict(list)
        for doc in docs:
            by_category[max(doc.cats, key=lambda label: doc.cats[label])].append(doc)
        docs = [doc for group in by_category.values() for doc in group[:per_category]]
    DocBin(docs=docs).to_disk(target)
    return len(docs), sum(len(doc) for doc in docs)


def write_corpus(run: Run, seed: int, corpus_dir: Path, work_dir: Path) -> Tuple[int, int]:
    """Write the files of a training: its share of the training data, the development data, of which at most
    `DEV_SENTENCES` sentences if the training sentences are limited, and the test data.

    RETURNS (Tuple[int, int]): Number of training docs and words.
    """
    if seed and run.dataset in UNDIVIDED:
        corpus_dir = divide(corpus_dir, work_dir / "parts", seed)
    if run.n_sentences:
        write_share(corpus_dir / "dev.spacy", work_dir / "dev.spacy", 100, n_sentences=DEV_SENTENCES)
    else:
        shutil.copy(corpus_dir / "dev.spacy", work_dir)
    shutil.copy(corpus_dir / "test.spacy", work_dir)
    drawn = {"n_sentences": run.n_sentences, "per_category": run.per_category, "seed": seed}
    return write_share(corpus_dir / "train.spacy", work_dir / "train.spacy", run.share, **drawn)


def score(pipeline_dir: Path, corpus_dir: Path) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Under "test" the scores on the test data that are single numbers, 0 to 1; under
    "words_per_second" the words that it predicts in a second of CPU time there; under "mixes" component, place, shares
    of the layers (the token layer first) and gamma of each mix with weights, if any; under "threshold" the
    threshold of a component for several categories, chosen on the development data.
    """
    nlp = spacy.load(pipeline_dir)
    threshold = {}
    if MULTILABEL in nlp.pipe_names:
        threshold["threshold"] = choose_threshold(nlp, list(Corpus(corpus_dir / "dev.spacy")(nlp)))
    examples = list(Corpus(corpus_dir / "test.spacy")(nlp))
    start_s = time.process_time()
    n_words = sum(len(doc) for doc in nlp.pipe([example.predicted.copy() for example in examples]))
    words_per_second = round(n_words / (time.process_time() - start_s))
    scores = nlp.evaluate(examples)
    test = {
        key: round(value, 5)
        for key, value in scores.items()
        if isinstance(value, float) and key != "speed" and not key.startswith("token_")
    }
    mixes = [
        {
            "component": mix.component,
            "place": mix.place,
            "shares": [round(share, 5) for share in mix.shares],
            "gamma": round(mix.gamma, 5),
        }
        for mix in find_task_mixes(nlp)
        if not mix.is_concatenated
    ]
    speed = {"words_per_second": words_per_second}
    return {"test": test, **speed, **threshold, **({"mixes": mixes} if mixes else {})}


def choose_threshold(nlp: Language, examples: List[Example]) -> float:
    """Set the threshold of the categories to that with the best macro F on these examples: the best one depends on how
    sure a network is, so that a fixed one would compare that.

    RETURNS (float): Of equals the highest.
    """
    for example, doc in zip(examples, nlp.pipe([example.predicted for example in examples])):
        example.predicted = doc
    pipe = nlp.get_pipe(MULTILABEL)
    scores = [
        Scorer.score_cats(examples, "cats", labels=pipe.labels, multi_label=True, threshold=threshold)["cats_macro_f"]
        for threshold in THRESHOLDS
    ]
    _, pipe.cfg["threshold"] = max(zip(scores, THRESHOLDS))
    return float(pipe.cfg["threshold"])


def _train_and_score(run: Run, seed: int, work_dir: Path, corpus_dir: Path, options: Options) -> Dict[str, Any]:
    """Leave the data and the best pipeline in `work_dir`. RETURNS (Dict[str, Any]): What was measured."""
    n_docs, n_words = write_corpus(run, seed, corpus_dir, work_dir)
    sizes = {"train_docs": n_docs, "train_words": n_words}
    if run.is_classifier:
        settings = dict(run.settings)
        kind, shared = settings.pop("kind"), {"weights": find_minilm(options.minilm), "max_steps": options.max_steps}
        corpora = (work_dir / "train.spacy", work_dir / "dev.spacy")
        measured = train_minilm(kind, Tuning(**settings), seed, corpora, work_dir / BEST, **shared)
        return {**score(work_dir / BEST, work_dir), **measured, **sizes}
    make_config(run, options).to_disk(work_dir / "config.cfg")
    overrides = make_overrides(run, seed, work_dir, options)
    start_s = time.process_time()
    with cache_frozen_transformer() if run.has_minilm else nullcontext():
        train_pipeline(work_dir / "config.cfg", work_dir / BEST.parent, overrides)
    cpu_seconds = time.process_time() - start_s
    evaluations = [row for row in srsly.read_jsonl(work_dir / "log.jsonl") if row.get("score") is not None]
    curve = [(int(row["step"]), round(float(row["score"]), 5)) for row in evaluations]
    best_step, best_score = max(curve, key=lambda row: (row[1], row[0]))  # of equals spaCy keeps the last
    best = {"best_dev_score": best_score, "best_step": best_step, "last_step": curve[-1][0], "curve": curve}
    return {**score(work_dir / BEST, work_dir), **best, "cpu_seconds": round(cpu_seconds, 1), **sizes}


def _place(config: Config, name: str, placement: str) -> None:
    """Put ELMo at the input, the output or both of the encoder of a component, or remove it from the pipeline."""
    model = config["components"][name]["model"]
    tok2vec = model["tok2vec"]
    listener = deepcopy(tok2vec["elmo_input"])
    if placement == "none":
        layers = {"dropout": {"@layers": "Dropout.v1"}, "encode": tok2vec["encode"]}  # as in ElmoTaskEncoder
        encode = {"@layers": "chain.v1", "*": layers}
        model["tok2vec"] = {"@architectures": "spacy.Tok2Vec.v2", "embed": tok2vec["embed"], "encode": encode}
        config["nlp"]["pipeline"].remove("elmo")
        del config["components"]["elmo"], config["initialize"]["components"]["elmo"], config["paths"]["bilm"]
        return
    for place in ("input", "output"):
        tok2vec[f"elmo_{place}"] = deepcopy(listener) if placement in (place, "both") else None
