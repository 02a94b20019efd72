"""A starter config for a pipeline with ELMo: from `spacy init config`, with every `tok2vec` block replaced."""

import os
import shlex
import warnings
from copy import deepcopy
from functools import lru_cache, reduce
from operator import getitem
from pathlib import Path
from textwrap import wrap
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from spacy import blank
from spacy.cli.init_config import init_config as make_spacy_config
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import load_model_from_config
from thinc.api import Config

from ..errors import Errors
from ..files import AnyPath, find_configs
from ..weights.archive import File, read_json
from ..weights.formats.native import PACKAGED_NAMES
from ..weights.load import locate_model
from ..weights.published import describe_published
from . import component as component  # registers the factory
from .fine_tuning import SLANTED_TRIANGULAR
from .gamma_choice import CHOOSE_GAMMA, STARTER_GAMMA
from .layer_weights import load_trained
from .noun_chunks import NOUN_CHUNKS, lacks_ud_rules
from .replaced_listener import LISTENER_ARCHITECTURE
from .text_classifier import BAG_OF_WORDS

PLACEMENTS = {"input": "at the input", "output": "at the output", "both": "at the input and at the output"}
READS = {"accuracy": "ELMo beside word features, through an encoder", "efficiency": "ELMo alone"}
# Names to ignore: shared layers, which ELMo replaces, and empty names.
SHARED = ("", "elmo", "tok2vec", "transformer")
LISTENER_SETTINGS = {"@architectures": LISTENER_ARCHITECTURE, "layer_norm": "token"}
NGRAM_LISTENER = {**LISTENER_SETTINGS, "mix": "concat", "initial_gamma": STARTER_GAMMA, "learn_gamma": False}
LOADER = {"@misc": "spacy-elmo.BiLMLoader.v1", "path": "${paths.bilm}"}
# As in configs/elmo_ner_finetune.cfg.
FINE_TUNING = {"@misc": "spacy-elmo.FineTuning.v1", "top_rate": 0.385, "layer_decay": 0.385}
# Beside other components, layers are learned early and n-grams late, with a plateau of the score between.
TEXT_UPDATES = {"patience": 4000}
# Alone: the longer and the faster a linear classifier is trained, the weaker is its regularization. A rate that rises
# leads from the strongest to the weakest in one training, and the evaluations choose between them.
NGRAM_UPDATES = {"patience": 3000}
RISING_RATE = {
    "@schedules": SLANTED_TRIANGULAR,
    "max_rate": 0.03,
    "num_steps": 20000,  # max_steps; spaCy reads no variables in an optimizer
    "cut_frac": 0.3,
    "ratio": 32.0,
}
# A biLM with narrower projections than en_elmo_sm is fine-tuned by default, but not by text classifiers, which learn a
# few texts by heart then.
NARROW = 128
# Components by the token attribute that they learn, and components that learn other annotations.
ANNOTATED = {"TAG": "tagger", "POS": "morphologizer", "MORPH": "morphologizer"}
ANNOTATED |= {"LEMMA": "trainable_lemmatizer", "DEP": "parser"}
OTHERS = ("senter", "ner", "spancat", "textcat", "textcat_multilabel")
NEG_PREFIX = "!"  # spaCy's default
PARSERS = ("parser", "beam_parser", "biaffine_parser")
CLASSIFIERS = {"textcat", "textcat_multilabel"}
LATER = (
    f" Then it stays frozen. If its projections are narrower than {NARROW} values, as after `init-pretraining "
    "--small`, scores are higher when it is trained too: name it when it exists, or set `fine_tune`."
)
ENCODER_WIDTH = 200  # of the BiLSTM, both directions together
PIPE_BATCH_SIZE = 256  # Docs per batch of `nlp.pipe`; with spaCy's 1,000 the layers need four times as much memory
N_GRAMS = "spacy-elmo.TextCatNgrams.v1"
READ_N_GRAMS = (BAG_OF_WORDS, N_GRAMS)
NO_LISTENER = "it has no component that could listen to ELMo"
ConfigBlock = Dict[str, Any]


def make_pipeline_config(
    pipeline: str,
    *,
    lang: Optional[str] = None,
    optimize: str = "accuracy",
    placement: Optional[str] = None,
    bilm: Optional[str] = None,
    base: Optional[str] = None,
    fine_tune: Optional[bool] = None,
    is_baseline: bool = False,
    output: str = "runs/config",
    writes_logs: bool = False,
    has_ud_labels: bool = False,
    neg_prefix: str = NEG_PREFIX,
    use_gpu: bool = False,
    code: Optional[AnyPath] = None,
    config_path: str = "config.cfg",
) -> str:
    """Create the config of a pipeline, complete and with comments.

    pipeline (str): Names of components, separated by commas.
    lang (Optional[str]): Language code; None for the language of `base` or of the biLM, or "en".
    optimize (str): "efficiency": each component reads a listener; "accuracy": a listener and word features, followed by
        an encoder: a biLM of other or of little text knows less of a word than its prefix and suffix say.
    placement (Optional[str]): ELMo at the "input", the "output" or "both" of a BiLSTM over word features, in place of
        the network of `optimize`.
    bilm (Optional[str]): Name or path of a biLM; None: the packaged one of the language, or null.
    base (Optional[str]): Name or path of a trained pipeline. The components of `pipeline` have the settings that they
        have there, and all others are taken from it, frozen.
    fine_tune (Optional[bool]): Train the biLM too. None for True with a biLM in native format that is narrower than
        en_elmo_sm, and without text classifiers.
    is_baseline (bool): Without ELMo: the components read word features through an encoder.
    output (str): Output folder of the training, for the command in the header.
    writes_logs (bool): Write into that folder the logs that `elmo report` draws.
    has_ud_labels (bool): A parser will learn the labels of Universal Dependencies: `doc.noun_chunks` will read them.
    neg_prefix (str): What no tag begins with, for taggers: spaCy reads such a tag as one that the word does not have.
    use_gpu (bool): Let PyTorch and Thinc share the memory of a GPU.
    code (Optional[AnyPath]): Python file that the caller has imported for the pipeline, for that command.
    config_path (str): Path of the config, for the command in its header.
    RAISES (ValueError): EL210 for an invalid pipeline or a language that spaCy does not support; for another language
        or biLM than `base` has. OSError if there is no pipeline `base`.
    """
    base_nlp = None if base is None else load_trained(base)
    elmo_names = _find_elmo(base_nlp) if base_nlp else []
    if base_nlp is not None:
        checks = (
            (lang in (None, base_nlp.lang), f"`lang` is '{lang}', but its language is '{base_nlp.lang}'"),
            (not (elmo_names and bilm), f"`bilm` is '{bilm}', but new components will read its component 'elmo'"),
            (not (elmo_names and fine_tune), "`fine_tune` would change its biLM, but other components read it"),
        )
        problems = [problem for is_fine, problem in checks if not is_fine]
        if problems:
            raise ValueError(
                f"The trained pipeline '{base}' has settings of its own: {'; '.join(problems)}. Leave these out."
            )
    lang = (base_nlp.lang if base_nlp else lang or read_lang(bilm)) or "en"
    names = _check_pipeline(pipeline, lang, base_nlp)
    has_bilm = is_baseline or bool(elmo_names)
    tok2vec = _make_tok2vec(lang, optimize, placement, is_baseline)
    config = _make_blocks(names, lang, optimize, tok2vec, placement, base_nlp, is_baseline=is_baseline)
    has_classifier = bool(CLASSIFIERS & {block["factory"] for block in config["components"].values()})
    advice = LATER if fine_tune is None and not has_classifier else ""
    bilm = None if has_bilm else choose_bilm(bilm, lang, advice)
    if fine_tune is None:
        fine_tune = not elmo_names and not has_classifier and _is_narrow(bilm)
    frozen_blocks: Dict[str, ConfigBlock] = {}
    if base_nlp is not None:
        frozen_blocks = _freeze_others(config, names, base_nlp)
        config["paths"]["base"] = base
    if not has_bilm:
        _add_elmo(config, bilm, fine_tune=fine_tune)
    config["training"]["optimizer"]["use_averages"] = True  # a single evaluation chooses less by luck
    trained = [block for name, block in config["components"].items() if name in names]
    models = [model if isinstance(model := block.get("model"), dict) else {} for block in trained]
    architectures = {model.get("@architectures") for model in models}
    learns_ngrams_alone = architectures == {N_GRAMS} and not fine_tune
    if learns_ngrams_alone:
        config["training"].update(NGRAM_UPDATES)
        config["training"]["optimizer"]["learn_rate"] = RISING_RATE
    elif has_classifier:
        config["training"].update(TEXT_UPDATES)
    if not is_baseline and N_GRAMS in architectures:
        config["initialize"]["after_init"] = {"@callbacks": CHOOSE_GAMMA}
    if writes_logs:
        _add_logs(config, output, has_mixes=_weighs_layers(config["components"]))
    if has_ud_labels and lacks_ud_rules(lang) and set(names) & set(PARSERS):
        config["nlp"]["after_creation"] = {"@callbacks": NOUN_CHUNKS}
    taggers = [block for block in trained if block["factory"] == "tagger" and neg_prefix != NEG_PREFIX]
    for block in taggers:
        block["neg_prefix"] = neg_prefix
    config["system"]["gpu_allocator"] = "pytorch" if use_gpu else None
    filled = load_model_from_config(config, auto_fill=True).config
    filled["components"].update(frozen_blocks)  # spaCy fills in their settings
    elmo, owner = ("without ELMo", "network") if is_baseline else ("with ELMo", "mix of layers")
    lines = [f"{', '.join(names)} {elmo}: the config of `spacy init config`, each component with its own {owner}."]
    models = [block["model"] for block in filled["components"].values() if _can_listen(block.get("model"))]
    reads_ngrams = [model["@architectures"] == N_GRAMS for model in models]
    if not all(reads_ngrams):
        lines.append(f"Components read {_describe_tok2vec(optimize, placement, is_baseline)}.")
    differing = ["trains the biLM too"] if fine_tune and not is_baseline else []
    differing += ["trains with a learning rate that rises, then falls"] if learns_ngrams_alone else []
    if has_classifier:
        differing.append(f"ends after {config['training']['patience']:,} updates without a better score")
    lines.append(f"Differs from it: {', '.join([*differing, 'saves averaged weights'])}.")
    if any(reads_ngrams):
        beside = "" if is_baseline else ", and from all layers, without a mix of their own"
        lines.append(f"Differs from it: text categories from n-grams of words and characters{beside}.")
    if taggers:
        lines.append(
            f"Differs from it: tags begin with {NEG_PREFIX}, which spaCy takes for a mark, so neg_prefix is longer."
        )
    if base:
        lines.append(f"All other components are from {base}, and are not trained.")
    command = f"python -m spacy train {config_path} --output {shlex.quote(output)}"
    options = "" if bilm or has_bilm else " --paths.bilm BILM"
    options += "" if code is None else f" --code {shlex.quote(os.fsdecode(code))}"
    lines.append(f"{command} --paths.train train.spacy --paths.dev dev.spacy{options}")
    return "".join(f"# {line}\n" for line in lines) + "\n" + write_config(filled)


def find_annotated(docs: Iterable[Doc]) -> List[str]:
    """RETURNS (List[str]): Factories of the components that some of the Docs have annotations for."""
    factories: Set[str] = set()
    n_true = []
    for doc in docs:
        # To spaCy a Doc without tokens has all annotations.
        factories |= {factory for name, factory in ANNOTATED.items() if len(doc) and doc.has_annotation(name)}
        factories |= {"ner"} if doc.ents else set()
        factories |= {"spancat"} if doc.spans.get("sc") else set()
        factories |= {"senter"} if len(list(doc.sents if doc.has_annotation("SENT_START") else ())) > 1 else set()
        n_true += [sum(value >= 0.5 for value in doc.cats.values())] if doc.cats else []
    factories -= {"senter"} if "parser" in factories else set()
    if n_true:
        factories.add("textcat" if set(n_true) == {1} else "textcat_multilabel")
    return [name for name in dict.fromkeys([*ANNOTATED.values(), *OTHERS]) if name in factories]


def find_unannotated(factories: List[str], docs: Iterable[Doc]) -> List[str]:
    """RETURNS (List[str]): Factories with a model that learns annotations which the Docs do not have, of those that
    `find_annotated` looks for.
    """
    nlp = blank("xx")  # also loads the factories of installed packages
    learned = [*ANNOTATED.values(), *OTHERS]
    metas = {name: nlp.get_factory_meta(name) for name in [*learned, *factories]}
    known = {attr for name in learned for attr in metas[name].assigns}
    there = {attr for name in find_annotated(docs) for attr in metas[name].assigns}
    trained = [name for name in factories if (metas[name].default_config or {}).get("model")]
    return [name for name in trained if not known.intersection(metas[name].assigns) <= there]


def find_neg_prefix(docs: Iterable[Doc]) -> str:
    """RETURNS (str): A `neg_prefix` that no tag of the Docs begins with, spaCy's own if possible: a tagger takes the
    tag "!" for a mark without a tag, and ends with a KeyError.
    """
    tags = {token.tag_ for doc in docs for token in doc}
    return NEG_PREFIX * (1 + max((len(tag) - len(tag.lstrip(NEG_PREFIX)) for tag in tags), default=0))


def find_language_bilm(lang: str) -> Optional[str]:
    """RETURNS (Optional[str]): The packaged biLM of a language, None if there is none."""
    return next((name for name in PACKAGED_NAMES if name.startswith(f"{lang}_")), None)


def choose_bilm(bilm: Optional[str], lang: str, advice: str = "") -> Optional[str]:
    """RETURNS (Optional[str]): The given biLM, with a warning if it does not exist; otherwise a packaged biLM of the
    language, or None with a warning. The advice is the end of both.
    """
    if bilm is None:
        bilm = find_language_bilm(lang)
        if bilm is None:
            text = (
                f"The package contains no biLM for the language '{lang}', so the config specifies none. "
                f"{describe_published(lang)} Name one now with `bilm`, or with paths.bilm (paths.init for adaptation) "
                f"when you train.{advice}"
            )
            warnings.warn(text, stacklevel=2)
        return bilm
    if bilm not in PACKAGED_NAMES and not Path(bilm).exists():
        text = (
            f"'{bilm}' is neither a packaged biLM ({', '.join(PACKAGED_NAMES)}) nor an existing file or folder. The "
            f"config specifies it nevertheless: put the weights there before you train.{advice}"
        )
        warnings.warn(text, stacklevel=2)
    return bilm


def read_lang(bilm: Optional[str]) -> Optional[str]:
    """RETURNS (Optional[str]): The language of a biLM in native format; None for other formats."""
    meta = None if bilm is None else locate_model(bilm) / "meta.json"
    record = read_json(File(meta)) if meta is not None and meta.is_file() else None
    lang = record.get("lang") if isinstance(record, dict) else None
    return lang if isinstance(lang, str) and lang.strip() else None


def _is_narrow(bilm: Optional[str]) -> bool:
    """RETURNS (bool): Whether it is in native format, and narrower than the packaged ones."""
    path = None if bilm is None or bilm in PACKAGED_NAMES else locate_model(bilm) / "config.json"
    record = read_json(File(path)) if path is not None and path.is_file() else None
    sizes = record.get("bilm") if isinstance(record, dict) else None
    width = sizes.get("projection_width") if isinstance(sizes, dict) else None
    return isinstance(width, int) and width < NARROW


def _check_pipeline(pipeline: str, lang: str, base: Optional[Language]) -> List[str]:
    """RETURNS (List[str]): Names of factories or of components of `base`, without shared layers.
    RAISES (ValueError): EL210 for unknown or duplicate names, or for no name; for a language that spaCy does not
        support, or cannot tokenize without another package.
    """
    try:
        nlp = blank(lang)  # also loads the factories of spaCy and of installed packages
    except ImportError as error:
        raise ValueError(
            f"spaCy cannot create a pipeline for the language '{lang}' ({error}). If it has this "
            "language, install the packages that it requires; if not, choose another code with `lang`, for example en, "
            "or xx for any language."
        ) from error
    names = [name.strip() for name in pipeline.split(",") if name.strip() not in SHARED]
    known = [] if base is None else [name for name in base.component_names if name not in SHARED]
    problems = [] if names else ["no component is named" + (f" (`base` has {', '.join(known)})" if known else "")]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            problems.append(f"'{name}' is listed {names.count(name)} times")
        if not nlp.has_factory(name) and name not in known:
            problems.append(f"there is no factory '{name}'")
    if problems:
        raise ValueError(Errors.EL210.format(pipeline=pipeline, lang=lang, problems="; ".join(problems)))
    return names


def _make_blocks(
    names: List[str],
    lang: str,
    optimize: str,
    tok2vec: ConfigBlock,
    placement: Optional[str],
    base: Optional[Language],
    *,
    is_baseline: bool,
) -> Config:
    """RETURNS (Config): That of spaCy, with another `tok2vec` in the components, and with their settings of `base`.
    RAISES (ValueError): EL210 if no component has a model that could listen to ELMo.
    """
    settings = {} if base is None else base.config.interpolate()["components"]
    order = names if base is None else _order(names, base, is_baseline=is_baseline)
    names = [name for name in order if name in names or name not in settings]
    config = make_spacy_config(lang=lang, pipeline=[name for name in names if name not in settings], optimize=optimize)
    blocks = {name: settings.get(name) or config["components"][name] for name in names}
    components = {name: _listen(name, blocks[name], tok2vec, placement) for name in names}
    if not any(_can_listen(block.get("model")) for block in blocks.values()):
        raise ValueError(Errors.EL210.format(pipeline=",".join(names), lang=lang, problems=NO_LISTENER))
    config["components"] = components
    config["nlp"].update(pipeline=order, batch_size=PIPE_BATCH_SIZE)
    config["paths"]["vectors"] = None  # for accuracy, spaCy chooses vectors that must be downloaded
    return config


def _add_elmo(config: Config, bilm: Optional[str], *, fine_tune: bool) -> None:
    """Add the component `elmo`, first in the pipeline, and its biLM."""
    elmo: ConfigBlock = {"factory": "elmo", "store": "layers"}
    if fine_tune:
        elmo["model"] = {"@architectures": "spacy-elmo.ElmoModel.v1", "frozen": False, "fine_tuning": FINE_TUNING}
    config["components"] = {"elmo": elmo, **config["components"]}
    config["nlp"]["pipeline"] = ["elmo", *config["nlp"]["pipeline"]]
    config["paths"]["bilm"] = bilm
    config["initialize"]["components"]["elmo"] = {"loader": LOADER}


def _add_logs(config: Config, folder: str, *, has_mixes: bool) -> None:
    config["paths"]["logs"] = folder
    console = {
        "@loggers": "spacy.ConsoleLogger.v3",
        "progress_bar": None,
        "output_file": "${paths.logs}/scores.jsonl",
    }
    mixes = {"@loggers": "spacy-elmo.LayerWeightsLogger.v1", "path": "${paths.logs}/layer_weights.jsonl"}
    chain = {"@loggers": "spacy.ChainLogger.v1", "logger1": console, "logger2": mixes}
    config["training"]["logger"] = chain if has_mixes else console


def _weighs_layers(block: ConfigBlock) -> bool:
    """RETURNS (bool): Whether a listener in a block has layer weights: concatenated layers have none."""
    is_listener = block.get("@architectures") == LISTENER_ARCHITECTURE
    inner = (value for value in block.values() if isinstance(value, dict))
    return (is_listener and block.get("mix") != "concat") or any(map(_weighs_layers, inner))


def _order(names: List[str], base: Language, *, is_baseline: bool) -> List[str]:
    """RETURNS (List[str]): The components of `base`, without shared layers that only `names` read, and the new
    components. All `names` come after an ELMo component of `base`, which a baseline does not read.
    """
    read_by = {name: getattr(pipe, "listening_components", ()) for name, pipe in base.components}
    elmo = [] if is_baseline else _find_elmo(base)
    unread = [name for name, readers in read_by.items() if readers and name not in elmo and set(readers) <= set(names)]
    order = [name for name in base.component_names if name not in unread]
    order += [name for name in names if name not in order]
    early = [name for name in names if elmo and order.index(name) < order.index(elmo[-1])]
    return sorted(order, key=early.__contains__)


def _find_elmo(base: Language) -> List[str]:
    return [name for name in base.component_names if base.get_pipe_meta(name).factory == "elmo"]


def _freeze_others(config: Config, names: List[str], base: Language) -> Dict[str, ConfigBlock]:
    """Take all components except `names` from a trained pipeline, frozen, with its tokenizer and its vocabulary."""
    order = config["nlp"]["pipeline"]
    frozen = [name for name in order if name not in config["components"]]
    blocks = {name: {"source": "${paths.base}"} for name in frozen}
    config["components"].update(blocks)
    nlp = base.config.interpolate()["nlp"]
    disabled = [name for name in base.disabled if name in frozen]
    config["nlp"] = {**nlp, "pipeline": order, "disabled": disabled, "batch_size": PIPE_BATCH_SIZE}
    copied = {"tokenizer": "${paths.base}", "vocab": "${paths.base}"}
    config["initialize"]["before_init"] = {"@callbacks": "spacy.copy_from_base_model.v1", **copied}
    annotating = [name for name in frozen if name in _find_elmo(base)]
    config["training"].update(frozen_components=frozen, annotating_components=annotating)
    # The best pipeline is that with the best scores of what is trained.
    metas = {name: base.get_pipe_meta(name).default_score_weights or {} for name in base.component_names}
    scores = {key for name in names for key in metas.get(name, config["training"]["score_weights"])}
    others = {key: None for name in frozen for key in metas[name] if key not in scores}
    config["training"]["score_weights"].update(others)
    return blocks


def _make_tok2vec(lang: str, optimize: str, placement: Optional[str], is_baseline: bool) -> ConfigBlock:
    """RETURNS (ConfigBlock): A listener, for efficiency; otherwise the network of configs/task_*.cfg if a placement is
    given, or of configs/elmo_*.cfg: spaCy's word features concatenated with ELMo, then spaCy's small encoder. For a
    baseline, word features and encoder alone.
    """
    if placement is None and not is_baseline and optimize == "efficiency":
        return LISTENER_SETTINGS
    shared = make_spacy_config(lang=lang, pipeline=["tagger"], optimize="efficiency")["components"]["tok2vec"]["model"]
    embed = {**shared["embed"], "width": shared["encode"]["width"]}
    encode = shared["encode"]
    if placement is not None:
        encode = {"@architectures": "spacy-elmo.BiLSTMEncoder.v1", "width": ENCODER_WIDTH}
    if is_baseline:
        return {"@architectures": "spacy.Tok2Vec.v2", "embed": embed, "encode": encode}
    if placement is None:
        name = "spacy-elmo.Tok2VecWithElmo.v1"
        return {"@architectures": name, "embed": embed, "elmo": LISTENER_SETTINGS, "encode": encode}
    places = {"input": ("elmo_input",), "output": ("elmo_output",), "both": ("elmo_input", "elmo_output")}[placement]
    name = "spacy-elmo.ElmoTaskEncoder.v1"
    return {"@architectures": name, "embed": embed, "encode": encode, **dict.fromkeys(places, LISTENER_SETTINGS)}


def _describe_tok2vec(optimize: str, placement: Optional[str], is_baseline: bool) -> str:
    """RETURNS (str): What `_make_tok2vec` reads."""
    if placement is not None:
        return "word features through a BiLSTM" + ("" if is_baseline else f", with ELMo {PLACEMENTS[placement]}")
    return "word features through an encoder" if is_baseline else READS[optimize]


def _listen(name: str, component: ConfigBlock, tok2vec: ConfigBlock, placement: Optional[str]) -> ConfigBlock:
    """RETURNS (ConfigBlock): The component with its `tok2vec` replaced; a classifier with a bag of words or n-grams
    reads n-grams and ELMo, or with a placement the maximum and the mean of the vectors.
    """
    model: Any = component.get("model")
    if not _can_listen(model):
        if model is not None:
            text = f"The component '{name}' does not listen to ELMo, because its model has no `tok2vec` block. The "
            warnings.warn(text + "config contains it as spaCy creates it.", stacklevel=2)
        return component
    bag = model.get("linear_model", model)  # alone or in an ensemble
    exclusive = {"exclusive_classes": bag.get("exclusive_classes")}
    if not bag["@architectures"].startswith(READ_N_GRAMS):
        rewritten = _replace_tok2vec(model, tok2vec)
    elif placement is None:
        is_baseline = tok2vec["@architectures"].startswith("spacy.")
        listener = None if is_baseline else deepcopy(NGRAM_LISTENER)
        kept = model if model["@architectures"] == N_GRAMS else {}
        rewritten = {**kept, "@architectures": N_GRAMS, "tok2vec": listener, **exclusive}
    else:
        pooled = {"use_reduce_max": True, "use_reduce_mean": True, "tok2vec": deepcopy(tok2vec)}
        rewritten = {"@architectures": "spacy-elmo.TextCatReduce.v1", **pooled, **exclusive}
    return {**component, "model": rewritten}


def _can_listen(block: Any) -> bool:
    """RETURNS (bool): Whether a model, or a block in it, reads n-grams or vectors of words."""
    if not isinstance(block, dict):
        return False
    reads_n_grams = str(block.get("@architectures", "")).startswith(READ_N_GRAMS)
    return reads_n_grams or "tok2vec" in block or any(map(_can_listen, block.values()))


def _replace_tok2vec(block: ConfigBlock, tok2vec: ConfigBlock) -> ConfigBlock:
    rewritten: ConfigBlock = {}
    for key, value in block.items():
        inner = _replace_tok2vec(value, tok2vec) if isinstance(value, dict) else value
        rewritten[key] = deepcopy(tok2vec) if key == "tok2vec" else inner
    return rewritten


# Comments: above each setting the one that it has in a packaged config, which explains every one

# The config whose comments fit any pipeline, and blocks that no pipeline here has.
FIRST_CONFIG, LAST_CONFIG = "elmo_textcat.cfg", "blocks.cfg"
PRETRAINING_CONFIGS = ("pretrain_", "adapt")  # configs of `elmo pretrain`
MAX_COLUMNS = 120
Setting = Tuple[str, str]  # what declares it, see `_owner_of`, and its name


def write_config(config: Config) -> str:
    """RETURNS (str): The config with a comment above each setting, in the first block of each kind."""
    comments = read_comments()
    described: Set[str] = set()
    lines: List[str] = []
    owner, is_new = "", False
    for path, key, line in _iter_lines(config.to_str(interpolate=False)):
        if line.startswith("["):
            owner = _owner_of(path, config)
            is_new = owner not in described
            described.add(owner)
        comment = comments.get((owner, key), "") if is_new else ""
        lines += [*wrap(comment, MAX_COLUMNS, initial_indent="# ", subsequent_indent="# "), line]
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=1)
def read_comments() -> Mapping[Setting, str]:
    """RETURNS (Mapping[Setting, str]): The comment of each setting in the packaged configs."""
    comments: Dict[Setting, str] = {}
    paths = [path for path in find_configs().glob("*.cfg") if not path.name.startswith(PRETRAINING_CONFIGS)]
    for path in sorted(paths, key=lambda path: (path.name != FIRST_CONFIG, path.name == LAST_CONFIG, path.name)):
        for setting, comment in _read_file(path):
            comments.setdefault(setting, comment)
    return comments


def _read_file(path: Path) -> Iterator[Tuple[Setting, str]]:
    text = path.read_text(encoding="utf8")
    config, comment = Config().from_str(text, interpolate=False), ""
    for block, key, line in _iter_lines(text):
        if line.startswith("# "):
            comment = f"{comment} {line[2:]}".strip()
            continue
        if key and comment:
            yield (_owner_of(block, config), key), comment
        comment = ""


def _iter_lines(text: str) -> Iterator[Tuple[str, str, str]]:
    """YIELDS (Tuple[str, str, str]): The dotted name of the block of a line, the name of its setting, "" if it has
    none, and the line.
    """
    path = ""
    for line in text.splitlines():
        path = line.strip("[]") if line.startswith("[") else path
        name, mark, _ = line.partition(" = ")
        yield path, name if mark and not line.startswith(("#", "[")) else "", line


def _owner_of(path: str, config: Config) -> str:
    """RETURNS (str): What declares the settings of a block: a registered function, a factory, or else its name."""
    block: Dict[str, Any] = reduce(getitem, path.split("."), config)
    names = [str(value) for key, value in block.items() if key.startswith("@")]
    return next(iter(names), str(block.get("factory", path)))
