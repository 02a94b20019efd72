"""A whole pipeline from a UD treebank: tags, features, lemmas, dependencies and sentences, for English also entities.

All components listen to one frozen biLM, or read word features alone. The components of the treebank are trained
together, on one encoder; then the entity recognizer beside them, on other texts. `training/<name>-<seed>` has a folder
for each of the two trainings, and the scores. A training that has ended is not repeated; with other settings it is an
error.
"""

import shutil
import subprocess
import sys
import tempfile
import time
import venv
from importlib.metadata import requires
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy
import spacy
import srsly
import torch
import typer
from packaging.requirements import Requirement
from spacy.cli.package import package as spacy_package
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus, Example
from spacy.util import get_minor_version_range
from spacy.vocab import Vocab
from thinc.api import Config
from wasabi import msg

from spacy_elmo import load_bilm
from spacy_elmo.about import __title__, __version__
from spacy_elmo.files import hash_file
from spacy_elmo.pipeline.kernel_ops import KERNEL_PRODUCTS
from spacy_elmo.pipeline.noun_chunks import NOUN_CHUNKS, lacks_ud_rules
from spacy_elmo.pipeline.starter_config import (
    NEG_PREFIX,
    find_language_bilm,
    find_neg_prefix,
    make_pipeline_config,
    read_lang,
)
from spacy_elmo.weights.formats.native import PACKAGED_NAMES
from spacy_elmo.weights.published import describe_published

sys.path.append(str(Path(__file__).parents[2] / "scripts"))  # of the example: data.py, shared.py
from conll18 import evaluate
from entities import TESTS, read_entities
from shared import (
    ASSETS,
    SPLITS,
    digest_config,
    find_processor,
    identify,
    report_errors,
    train_pipeline,
    write_json,
)
from tokenizer import create_fitting  # noqa: F401  registers the callback
from treebank import NONE, PROJECT_DIR, find_treebank, make_docs, read_words, words_of

VERSION = __version__  # of the package: each release trains it again
TRAINING_SENTENCES = 10  # per Doc at most: a longer Doc is a longer loop of the LSTM, in a batch with fewer Docs
TREEBANK, ENTITIES = "treebank", "entities"  # the two trainings
STAGE = "stage.json"  # in the folder of a training that has ended: its settings, its time, its scores by update
SCORES = "scores.json"  # beside the two trainings
# The network and the training of the components of the treebank; dotted names in the config.
ENCODER_WIDTH, ENCODER_DEPTH = 512, 2
DROPOUT = 0.33
TREEBANK_SETTINGS: Dict[str, Any] = {
    "training.max_steps": 3000,
    "training.patience": 0,
    "training.eval_frequency": 1500,
    "training.dropout": DROPOUT,
    "training.batcher": {  # Docs of similar length: fewer steps of the LSTM
        "@batchers": "spacy.batch_by_padded.v1",
        "size": 1800,
        "buffer": 1000,
        "discard_oversize": False,
        "get_length": None,
    },
    "training.optimizer.use_averages": False,
    "training.optimizer.beta2": 0.95,
    "training.optimizer.learn_rate": {
        "@schedules": "warmup_linear.v1",
        "warmup_steps": 100,
        "total_steps": 3000,
        "initial_rate": 0.002,
    },
}
SCORE_WEIGHTS = {"tag_acc": 0.1, "pos_acc": 0.2, "morph_acc": 0.1, "lemma_acc": 0.1, "dep_las": 0.4, "sents_f": 0.1}
ENTITY_SETTINGS: Dict[str, Any] = {
    "training.max_steps": 3000,
    "training.patience": 0,
    "training.eval_frequency": 500,
    "training.optimizer.use_averages": False,  # with them, Wikigold has 2.8 points less
    "training.optimizer.learn_rate": {
        "@schedules": "warmup_linear.v1",
        "warmup_steps": 100,
        "total_steps": 3000,
        "initial_rate": 0.001,
    },
}
PREDICTION = {"nlp": {"after_pipeline_creation": {"@callbacks": KERNEL_PRODUCTS}}}  # of all trained pipelines
NO_BILM = "none"  # in place of a biLM: word features alone
LISTENER = {"@architectures": "spacy.Tok2VecListener.v1", "upstream": "tok2vec"}
LAYER_CACHE_MB = 4096.0  # all layers of EWT, so that no epoch computes them again
N_WARM_UP = 20  # texts
MIN_ROUNDED = 10_000  # parameters of a matrix that is rounded further than to float16
LANGUAGES = {"no": "nb", "no_elmo_nynorsk": "nn", "no_elmo_nynorsklia": "nn"}  # codes of spaCy, where UD has others
ENTITY_SOURCES = [
    {"name": "Wikigold (Balasuriya et al. 2009)", "license": "CC BY 4.0"},
    {"name": "Universal NER, English-EWT, development part (Mayhew et al. 2024)", "license": "CC BY-SA 4.0"},
]
# Run in the new environment: where it installs packages, and whether the pipeline annotates a text.
SITE = "import sysconfig; print(sysconfig.get_path('purelib'))"
CHECK = """
import sys, spacy
doc = spacy.load(sys.argv[1])(sys.argv[2])
assert doc.has_annotation("DEP") and doc.has_annotation("POS"), "the text has no annotation"
for token in doc[:12]:
    print(token.text, token.pos_, token.tag_, token.lemma_, token.dep_, token.head.text, sep="\t")
"""
TREEBANK_OPTION = typer.Option(
    "en_ewt", "--treebank", "-t", help="Folder of a UD treebank, or its name below the assets"
)
BILM = typer.Option("en_elmo_sm", "--bilm", "-b", help="Name or path of the biLM; none for word features alone")
SEED = typer.Option(0, "--seed", "-s", help="Seed of the training")
app = typer.Typer(add_completion=False, help=__doc__)


def name_of(treebank: str, assets_dir: str) -> str:
    """RETURNS (str): Name of the pipeline: "en_elmo_ewt" for "en_ewt-ud-train.conllu" or a folder "en_ewt"."""
    path = find_treebank(treebank, assets_dir)["train"]
    stem = path.name.split("-ud-")[0] if "-ud-" in path.name else path.parent.name
    lang, _, rest = stem.lower().replace("-", "_").replace(".", "_").partition("_")
    return f"{lang}_elmo_{rest or 'treebank'}"


def lang_of(name: str) -> str:
    """RETURNS (str): Code of the language of a pipeline in spaCy, "xx" for one that spaCy does not have, or cannot
    divide into words without another package.
    """
    prefix = name.partition("_")[0]
    code = LANGUAGES.get(name, LANGUAGES.get(prefix, prefix))
    try:
        spacy.blank(code)
    except ImportError:
        return "xx"
    return code


def package_of(name: str) -> str:
    """RETURNS (str): Name of the package of a pipeline, which begins with spaCy's code of the language."""
    lang = lang_of(name)
    return name if name.startswith(f"{lang}_") else f"{lang}_{name}"


@app.command("prepare")
@report_errors("Cannot prepare the treebank")
def prepare_cli(treebank: str = TREEBANK_OPTION, assets_dir: str = ASSETS) -> None:
    """Write the Docs of the treebank, and of the entities if there are any for its language: corpus/<name>."""
    name = name_of(treebank, assets_dir)
    folder = PROJECT_DIR / "corpus" / name
    folder.mkdir(parents=True, exist_ok=True)
    paths = find_treebank(treebank, assets_dir)
    docs = {split: list(make_docs(paths[split], TRAINING_SENTENCES if split == "train" else None)) for split in SPLITS}
    if name.startswith("en_"):
        docs.update(read_entities(paths["dev"], assets_dir))
    for split, split_docs in docs.items():
        DocBin(docs=split_docs).to_disk(folder / f"{split}.spacy")
        msg.good(f"{folder / split}.spacy: {len(split_docs):,} docs, {sum(map(len, split_docs)):,} tokens")


@app.command("train")
@report_errors("Cannot train")
def train_cli(
    # fmt: off
    treebank: str = TREEBANK_OPTION,
    bilm: str = BILM,
    seed: int = SEED,
    max_steps: int = typer.Option(0, "--max-steps", "-n", help="Updates of each training; 0 for those of the recipe"),
    assets_dir: str = ASSETS,
    # fmt: on
) -> None:
    """Train the components of the treebank, then the entity recognizer; trainings that have ended are skipped."""
    name = name_of(treebank, assets_dir)
    corpus, output = PROJECT_DIR / "corpus" / name, folder_of(name, seed)
    if not (corpus / "train.spacy").is_file():
        raise FileNotFoundError(f"There are no Docs in '{corpus}'. Write them with {command('prepare', treebank)}.")
    lang, bilm_path = lang_of(name), find_bilm(bilm)
    if lang == "xx":
        code = name.partition("_")[0]
        msg.warn(f"'{name}' has the language 'xx': spaCy does not have '{code}', or needs another package for it.")
    advise_bilm(name, lang, bilm_path)
    config = make_treebank_config(lang, bilm_path, **find_annotation(corpus / "train.spacy"))
    paths = {"paths.train": str(corpus / "train.spacy"), "paths.dev": str(corpus / "dev.spacy")}
    base_settings = train_stage(config, output / TREEBANK, paths, bilm_path, seed, max_steps)
    if (corpus / "entities-train.spacy").is_file():
        base = output / TREEBANK / "out" / "model-best"
        paths = {f"paths.{split}": str(corpus / f"entities-{split}.spacy") for split in ("train", "dev")}
        base_digest = digest_config(base_settings)  # of the components that this training keeps
        entity_config = make_entity_config(base, has_bilm=bilm_path is not None)
        train_stage(entity_config, output / ENTITIES, paths, bilm_path, seed, max_steps, base=base_digest)


def find_bilm(bilm: str) -> Optional[str]:
    """RETURNS (Optional[str]): Name or absolute path of a biLM, None for word features alone."""
    if bilm == NO_BILM:
        return None
    return bilm if bilm in PACKAGED_NAMES else str((PROJECT_DIR / bilm).resolve())


def advise_bilm(name: str, lang: str, bilm: Optional[str]) -> None:
    """Warn of a missing biLM, or of one of another language: what is missing, and which commands give it."""
    code = name.partition("_")[0]
    bilm_lang = read_lang(bilm) if bilm else None
    if bilm and bilm_lang in (None, "xx", code, lang):
        return
    state = f"The biLM '{bilm}' is of the language '{bilm_lang}'." if bilm else "Without a biLM: word features alone."
    packaged = find_language_bilm(code)
    source = f"The package has it: `--bilm {packaged}`."
    if not packaged:
        source = (
            f"{describe_published(code)} With more text than the treebank has: `python -m spacy elmo "
            f"init-pretraining pretrain.cfg --text TEXT --lang {lang}`, `python -m spacy elmo pretrain pretrain.cfg "
            f"runs/{code}_elmo --paths.train TEXT --paths.valid HELD_OUT`, then `--bilm runs/{code}_elmo/model-best`. "
            "See docs/pretraining.md."
        )
    msg.warn(state, f"What is missing is a biLM of '{code}', which gives each word a vector of its context. {source}")


def folder_of(name: str, seed: int) -> Path:
    return PROJECT_DIR / "training" / f"{name}-{seed}"


def command(name: str, treebank: str, seed: Optional[int] = None) -> str:
    """RETURNS (str): A command of this script, as it is typed."""
    return f"`python scripts/pipeline.py {name} --treebank {treebank}{'' if seed is None else f' --seed {seed}'}`"


def find_pipeline(treebank: str, seed: int, assets_dir: str) -> Path:
    """RETURNS (Path): The trained pipeline. RAISES (FileNotFoundError): If there is none."""
    folder = folder_of(name_of(treebank, assets_dir), seed)
    for stage in (ENTITIES, TREEBANK):
        if (folder / stage / STAGE).is_file():
            return folder / stage / "out" / "model-best"
    raise FileNotFoundError(
        f"There is no trained pipeline in '{folder}'. Train it with {command('train', treebank, seed)}."
    )


def read_stages(folder: Path) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Of each training that has ended its settings, its time and its scores by update."""
    return {path.parent.name: srsly.read_json(path) for path in sorted(folder.glob(f"*/{STAGE}"))}


def find_annotation(train_path: Path) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): In what the annotation of treebanks differs: arguments of `make_treebank_config`."""
    docs = list(DocBin().from_disk(train_path).get_docs(Vocab()))
    tokens = list(chain.from_iterable(docs))
    return {  # without XPOS, spaCy's converter takes the coarse tag
        "has_xpos": any(token.tag_ != token.pos_ for token in tokens),
        "has_lemmas": any(token.lemma_ not in ("", NONE) for token in tokens),
        "neg_prefix": find_neg_prefix(docs),
    }


def make_treebank_config(
    lang: str,
    bilm: Optional[str],
    *,
    parser: str = "biaffine_parser",
    has_xpos: bool = True,
    has_lemmas: bool = True,
    neg_prefix: str = NEG_PREFIX,
) -> Config:
    """RETURNS (Config): For the components that the treebank has annotation for: word features and mixed layers at the
    input and output of one bidirectional LSTM; without a biLM, word features at its input.
    """
    names = [*(["tagger"] if has_xpos else []), "morphologizer"]
    names += [*(["suffix_lemmatizer"] if has_lemmas else []), "parser"]
    width = ENCODER_WIDTH + (load_bilm(bilm).config.output_width if bilm else 0)
    factories = ",".join([*names[:-1], parser])
    text = make_pipeline_config(
        factories, lang=lang, bilm=bilm, placement="both", is_baseline=bilm is None, neg_prefix=neg_prefix
    )
    config = Config().from_str(text, interpolate=False)
    config["components"]["parser"] = config["components"].pop(parser)
    encoder = config["components"][names[0]]["model"]["tok2vec"]
    encoder["encode"].update(width=ENCODER_WIDTH, depth=ENCODER_DEPTH)
    if bilm:
        encoder["elmo_output"]["output_dropout"] = DROPOUT  # that of its input and its own output is that of [training]
    for name in names:
        if "model" in config["components"][name]:
            config["components"][name]["model"]["tok2vec"] = {**LISTENER, "width": width}
    config["components"]["tok2vec"] = {"factory": "tok2vec", "model": encoder}
    config["nlp"]["pipeline"] = [*(["elmo"] if bilm else []), "tok2vec", *names]
    config["initialize"]["before_init"] = {"@callbacks": "fit_tokenizer", "path": "${paths.train}"}
    if bilm in PACKAGED_NAMES:  # the saved pipeline has its name in place of the weights
        config["components"]["elmo"]["weights"] = bilm
        del config["initialize"]["components"]["elmo"]
    return _set(config, TREEBANK_SETTINGS, SCORE_WEIGHTS)


def make_entity_config(base: Path, *, has_bilm: bool = True) -> Config:
    """RETURNS (Config): For an entity recognizer on the biLM of a trained pipeline, whose components do not change."""
    text = make_pipeline_config("ner", base=str(base), is_baseline=not has_bilm)
    config = Config().from_str(text, interpolate=False)
    config["nlp"]["after_pipeline_creation"] = None  # of `PREDICTION`
    return _set(config, ENTITY_SETTINGS, {"ents_f": 1.0})


def _set(config: Config, settings: Dict[str, Any], score_weights: Dict[str, float]) -> Config:
    for path, value in settings.items():
        *blocks, key = path.split(".")
        block = config
        for name in blocks:
            block = block[name]
        block[key] = value
    hidden = dict.fromkeys(config["training"]["score_weights"])
    config["training"]["score_weights"] = {**hidden, **score_weights}
    return config


def train_stage(
    config: Config, folder: Path, paths: Dict[str, str], bilm: Optional[str], seed: int, max_steps: int, **more: str
) -> Dict[str, Any]:
    """Train, and store settings, CPU time and scores by update, unless they are stored already.

    RETURNS (Dict[str, Any]): The settings, with digests of all files in place of their paths.
    RAISES (FileExistsError): If a training with other settings is there.
    """
    weights = identify(bilm) if bilm else {"bilm": NO_BILM}
    settings = {"config_digest": digest_config(config), **weights, "seed": seed, "max_steps": max_steps, **more}
    settings.update({name: hash_file(Path(path))[:12] for name, path in paths.items()})
    if (folder / STAGE).is_file():
        stored = srsly.read_json(folder / STAGE)["settings"]
        names = [name for name in {**stored, **settings} if stored.get(name) != settings.get(name)]
        if names:
            changed = ", ".join(f"{name} {settings.get(name)}, there {stored.get(name)}" for name in names)
            raise FileExistsError(
                f"'{folder}' has a training with other settings: {changed}. Move or remove '{folder.parent}' to train "
                "with these."
            )
        msg.info(f"{folder}: trained already")
        return settings
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    use_ud_noun_chunks(config)  # behind the digest: it is not about training
    config.to_disk(folder / "config.cfg")
    overrides: Dict[str, Any] = {
        **paths,
        "system.seed": seed,
        "training.logger.@loggers": "spacy.ConsoleLogger.v3",
        "training.logger.output_file": str(folder / "log.jsonl"),
        "training.logger.progress_bar": "train" if sys.stderr.isatty() else None,
    }
    if config["components"].get("elmo", {}).get("model"):
        overrides["components.elmo.model.layer_cache_mb"] = LAYER_CACHE_MB
    if max_steps:
        overrides["training.max_steps"] = overrides["training.optimizer.learn_rate.total_steps"] = max_steps
        overrides["training.eval_frequency"] = max_steps
    training = {**config["training"], **{key.removeprefix("training."): value for key, value in overrides.items()}}
    n_updates, every = training["max_steps"], training["eval_frequency"]
    msg.info(f"{folder}: {n_updates:,} updates, a row of scores after every {every:,}")
    start_s = time.process_time()
    train_pipeline(folder / "config.cfg", folder / "out", overrides)
    elapsed = {"cpu_seconds": round(time.process_time() - start_s, 1), "processor": find_processor()}
    rows = [row for row in srsly.read_jsonl(folder / "log.jsonl") if row.get("score") is not None]
    curve = [(int(row["step"]), round(float(row["score"]), 5)) for row in rows]
    write_json(folder / STAGE, {"settings": settings, **elapsed, "curve": curve})
    msg.good(f"{folder}: {elapsed['cpu_seconds']:.0f} s of CPU time")
    return settings


def tag_spaces(nlp: Language) -> None:
    """Annotate white space as spaCy's own pipelines do; treebanks have none, so that the networks would guess."""
    tagger = [name for name in ("tagger", "morphologizer") if name in nlp.pipe_names]
    ruler = nlp.add_pipe("attribute_ruler", after=tagger[-1])
    ruler.add([[{"IS_SPACE": True}]], {"POS": "SPACE", "MORPH": "_", **({"TAG": "_SP"} if "tagger" in tagger else {})})


def use_ud_noun_chunks(config: Config) -> None:
    """Let `doc.noun_chunks` read UD's labels, which spaCy's rules for English and German do not have."""
    if lacks_ud_rules(config["nlp"]["lang"]):
        config["nlp"]["after_creation"] = {"@callbacks": NOUN_CHUNKS}


@app.command("evaluate")
@report_errors("Cannot evaluate")
def evaluate_cli(
    # fmt: off
    treebank: str = TREEBANK_OPTION,
    seed: int = SEED,
    assets_dir: str = ASSETS,
    # fmt: on
) -> None:
    """Score the pipeline on the test data by the measures of CoNLL 2018: of predicted words and sentences ("raw"), and
    of given ones ("gold"); entities by their F1: training/<name>-<seed>/scores.json. Parameters are those of the
    wheel.
    """
    name = name_of(treebank, assets_dir)
    nlp = spacy.load(find_pipeline(treebank, seed, assets_dir), config=PREDICTION)
    tag_spaces(nlp)
    round_parameters(nlp)
    path = find_treebank(treebank, assets_dir)["test"]
    record: Dict[str, Any] = {"name": name, "seed": seed, **score_treebank(nlp, path)}
    corpus = PROJECT_DIR / "corpus" / name
    for test in TESTS if "ner" in nlp.pipe_names else ():
        with nlp.select_pipes(enable=[name for name in ("elmo", "ner") if name in nlp.pipe_names]):
            scores = nlp.evaluate(list(Corpus(corpus / f"entities-{test}.spacy")(nlp)))
        record[test] = {key: round(scores[key], 5) for key in ("ents_p", "ents_r", "ents_f")}
    folder = folder_of(name, seed)
    write_json(folder / SCORES, {**record, "stages": read_stages(folder)})
    measures = list(record["raw"])
    rows = [(kind, *(f"{100 * record[kind].get(measure, 0):.2f}" for measure in measures)) for kind in ("raw", "gold")]
    msg.table(rows, header=("", *measures))
    msg.table([(test, f"{100 * record[test]['ents_f']:.2f}") for test in TESTS if test in record], header=("", "F"))


def score_treebank(nlp: Language, path: Path) -> Dict[str, Dict[str, float]]:
    """RETURNS (Dict[str, Dict[str, float]]): Scores 0 to 1 by measure: "raw" of texts by paragraph, "gold" of Docs with
    the words and sentences of the treebank.
    """
    gold, docs = read_words(path), list(make_docs(path))
    given = [
        Doc(
            nlp.vocab,
            words=[token.text for token in doc],
            spaces=[bool(token.whitespace_) for token in doc],
            sent_starts=[bool(token.is_sent_start) for token in doc],
        )
        for doc in docs
    ]
    names = [name for name in nlp.pipe_names if name != "ner"]
    with nlp.select_pipes(enable=names):
        scores = {"raw": evaluate(gold, words_of(nlp.pipe(doc.text for doc in docs)))}
        scores["gold"] = evaluate(gold, words_of(nlp.pipe(given)))
    return {kind: {name: round(value, 5) for name, value in by_name.items()} for kind, by_name in scores.items()}


@app.command("speed")
@report_errors("Cannot measure the speed")
def speed_cli(
    # fmt: off
    treebank: str = TREEBANK_OPTION,
    seed: int = SEED,
    threads: int = typer.Option(1, "--threads", "-T", help="Threads of torch and of matrix products", min=1),
    repeats: int = typer.Option(3, "--repeats", "-r", help="Times that all texts are processed", min=1),
    assets_dir: str = ASSETS,
    # fmt: on
) -> None:
    """Print words per second on the test texts, in turns with the same networks without ELMo, whose weights are random,
    if the pipeline has a biLM, and the share of each component. CPU time is that of all threads.
    """
    name = name_of(treebank, assets_dir)
    torch.set_num_threads(threads)
    texts = [doc.text for doc in make_docs(find_treebank(treebank, assets_dir)["test"])]
    full = spacy.load(find_pipeline(treebank, seed, assets_dir), config=PREDICTION)
    pipelines = {name: full}
    if "elmo" in full.pipe_names:
        corpus = PROJECT_DIR / "corpus" / name
        docs = [*_read(full.vocab, corpus / "train.spacy"), *_read(full.vocab, corpus / "entities-dev.spacy")]
        pipelines["without ELMo"] = make_baseline(full, docs)
    rates: Dict[str, List[Tuple[float, float]]] = {label: [] for label in pipelines}
    for turn in range(repeats + 1):  # the first fills the caches
        for label, nlp in pipelines.items():
            start_s, start_cpu_s = time.perf_counter(), time.process_time()
            n_words = sum(len(doc) for doc in nlp.pipe(texts if turn else texts[:N_WARM_UP]))
            elapsed_s, elapsed_cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
            rates[label] += [(n_words / elapsed_s, n_words / elapsed_cpu_s)] if turn else []
    for label, nlp in pipelines.items():
        shares: Dict[str, float] = {}
        docs = [nlp.make_doc(text) for text in texts]
        for component, pipe in nlp.pipeline:
            start_cpu_s = time.process_time()
            docs = list(pipe.pipe(docs, batch_size=nlp.batch_size))
            shares[component] = time.process_time() - start_cpu_s
        listing = ", ".join(f"{component} {value / sum(shares.values()):.0%}" for component, value in shares.items())
        wall, cpu = (median(rate) for rate in zip(*rates[label]))
        msg.text(f"{label}: {wall:,.0f} words/s, {cpu:,.0f} words per CPU second; {listing}")
    if len(pipelines) == 1:
        return
    ratios = [[full_rate[i] / rate[i] for full_rate, rate in zip(*rates.values())] for i in (0, 1)]
    msg.text("ratio: {:.2f} by wall time, {:.2f} by CPU time".format(*map(median, ratios)))


def _read(vocab: Vocab, path: Path) -> List[Doc]:
    return list(DocBin().from_disk(path).get_docs(vocab)) if path.is_file() else []


def make_baseline(nlp: Language, docs: Sequence[Doc]) -> Language:
    """RETURNS (Language): The same networks on word features alone, initialized with the labels of annotated Docs."""
    config = remove_layers({key: nlp.config.interpolate()[key] for key in ("nlp", "components")})
    config["nlp"]["pipeline"].remove("elmo")
    del config["components"]["elmo"]
    baseline = spacy.util.load_model_from_config(config, auto_fill=True)
    baseline.initialize(lambda: [Example(Doc(baseline.vocab, words=[t.text for t in doc]), doc) for doc in docs])
    baseline.tokenizer = nlp.tokenizer
    return baseline


def remove_layers(config: Any) -> Any:
    """RETURNS (Any): A config, or a block of it, whose encoders read no ELMo."""
    if not isinstance(config, dict):
        return list(config) if isinstance(config, list) else config
    config = {key: remove_layers(value) for key, value in config.items()}
    name = config.get("@architectures", "")
    if name in ("spacy-elmo.ElmoTaskEncoder.v1", "spacy-elmo.Tok2VecWithElmo.v1"):
        return {"@architectures": "spacy.Tok2Vec.v2", "embed": config["embed"], "encode": config["encode"]}
    return {**config, "width": ENCODER_WIDTH} if name == LISTENER["@architectures"] else config


@app.command("package")
@report_errors("Cannot package the pipeline")
def package_cli(
    # fmt: off
    treebank: str = TREEBANK_OPTION,
    seed: int = SEED,
    assets_dir: str = ASSETS,
    # fmt: on
) -> None:
    """Build a wheel: packages/<name>-<version>/dist. Nothing is downloaded."""
    name = name_of(treebank, assets_dir)
    packages = PROJECT_DIR / "packages"
    packages.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        nlp = spacy.load(find_pipeline(treebank, seed, assets_dir), config=PREDICTION)
        nlp.meta.update(describe(name, treebank, seed, nlp.pipe_names))
        tag_spaces(nlp)
        round_parameters(nlp)
        nlp.config["paths"] = dict.fromkeys(nlp.config["paths"])  # those of this machine
        nlp.config["training"]["logger"] = {"@loggers": "spacy.ConsoleLogger.v1", "progress_bar": False}
        nlp.config["initialize"]["before_init"] = None  # a callback of this project
        use_ud_noun_chunks(nlp.config)
        nlp.to_disk(Path(work) / "pipeline")
        licence = find_treebank(treebank, assets_dir)["train"].parent / "LICENSE.txt"  # as in UD's folders
        text = licence.read_text(encoding="utf8") if licence.is_file() else f"{nlp.meta['license']}\n"
        (Path(work) / "pipeline" / "LICENSE").write_text(text, encoding="utf8")
        no_builds = {"create_sdist": False, "create_wheel": False}  # which would download setuptools
        short_name = package_of(name).partition("_")[2]
        spacy_package(Path(work) / "pipeline", packages, name=short_name, version=VERSION, force=True, **no_builds)
    folder = packages / f"{package_of(name)}-{VERSION}"
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    _run(
        [*pip, "--wheel-dir", folder / "dist", folder],
        "If the tools for it are missing: `pip install setuptools wheel`.",
    )
    wheel = find_wheel(treebank, assets_dir)
    msg.good(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB")


def _run(arguments: Sequence[Any], remedy: str, cwd: Optional[str] = None) -> None:
    done = subprocess.run(arguments, stderr=subprocess.PIPE, text=True, cwd=cwd)
    if done.returncode:
        raise ChildProcessError(f"{done.stderr.strip()}\n{remedy}")


def find_wheel(treebank: str, assets_dir: str) -> Path:
    """RETURNS (Path): The wheel. RAISES (FileNotFoundError): If there is none."""
    folder = PROJECT_DIR / "packages" / f"{package_of(name_of(treebank, assets_dir))}-{VERSION}" / "dist"
    wheel = next(iter(folder.glob("*.whl")), None)
    if wheel is None:
        raise FileNotFoundError(f"There is no wheel in '{folder}'. Build it with {command('package', treebank)}.")
    return wheel


def round_parameters(nlp: Language) -> None:
    """Round parameters, still in float32, so that a wheel, which is compressed, has a third of their size: those of a
    matrix to multiples of a power of two of about 1/32 of their root mean square, others to float16.
    """
    for model in (pipe.model for _, pipe in nlp.components if hasattr(pipe, "model")):
        for node in model.walk():
            for name in filter(node.has_param, node.param_names):
                array = node.get_param(name)
                if array.size < MIN_ROUNDED:
                    rounded = array.astype("float16").astype("float32")
                else:
                    step = 2.0 ** numpy.round(numpy.log2(numpy.sqrt((array**2).mean()) / 32))
                    rounded = (numpy.round(array / step) * step).astype("float32")
                node.set_param(name, rounded)


def describe(name: str, treebank: str, seed: int, components: Sequence[str]) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Meta data of the package, with its scores on the test data if they were measured.
    RAISES (ValueError): If they are those of another training.
    """
    folder = folder_of(name, seed)
    record = srsly.read_json(folder / SCORES) if (folder / SCORES).is_file() else {}
    evaluate_again = f"Measure them with {command('evaluate', treebank, seed)}."
    if not record:
        msg.warn(f"The package has no scores. {evaluate_again}")
    elif record["stages"] != read_stages(folder):
        raise ValueError(f"'{folder / SCORES}' has the scores of another training. {evaluate_again}")
    scores = {kind: record[kind] for kind in ("raw", "gold", *TESTS) if kind in record}
    recipe = {stage: stored["settings"] for stage, stored in read_stages(folder).items()}
    sources = [{"name": f"Universal Dependencies, {Path(treebank).name}", "url": "https://universaldependencies.org"}]
    if "ner" in components:
        sources += ENTITY_SOURCES
    annotation = f"Tags, features, lemmas, dependencies{', entities' if 'ner' in components else ''}"
    return {
        "version": VERSION,
        "description": f"{annotation} on {'a frozen biLM' if 'elmo' in components else 'word features'}",
        "license": "CC BY-SA 4.0" if name == "en_elmo_ewt" else "that of the treebank",
        "sources": sources,
        "recipe": recipe,
        "performance": {f"{kind}_{key}".lower(): value for kind in scores for key, value in scores[kind].items()},
        "requirements": [__title__ + str(get_minor_version_range(__version__))],
        "spacy_version": next(
            str(item.specifier) for item in map(Requirement, requires(__title__) or ()) if item.name == "spacy"
        ),
    }


@app.command("check")
@report_errors("The package does not work")
def check_cli(
    # fmt: off
    treebank: str = TREEBANK_OPTION,
    text: str = typer.Option("", "--text", "-x", help="A text to process; empty for the first of the test part"),
    assets_dir: str = ASSETS,
    # fmt: on
) -> None:
    """Install the wheel in a new virtual environment, which sees the packages that are installed here, and use it."""
    wheel = find_wheel(treebank, assets_dir)
    text = text or next(make_docs(find_treebank(treebank, assets_dir)["test"])).text
    with tempfile.TemporaryDirectory() as work:
        venv.create(work, with_pip=False)
        python = next(
            path for path in (Path(work) / "bin" / "python", Path(work) / "Scripts" / "python.exe") if path.exists()
        )
        site = Path(subprocess.run([python, "-c", SITE], check=True, capture_output=True, text=True).stdout.strip())
        installed = [path for path in sys.path if path and Path(path).is_dir() and path != str(Path(__file__).parent)]
        lines = [f"import site; site.addsitedir({path!r})" for path in installed]  # with the .pth files of these
        (site / "installed.pth").write_text("\n".join(lines), encoding="utf8")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel]
        remedy = f"Build the wheel again with {command('package', treebank)}."
        _run(pip, remedy)
        _run([python, "-I", "-c", CHECK, package_of(name_of(treebank, assets_dir)), text], remedy, cwd=work)
    msg.good(f"{wheel.name} works")


if __name__ == "__main__":
    app()
