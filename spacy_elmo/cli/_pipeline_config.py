"""The config of a pipeline with ELMo: spaCy's config for its components, with every `tok2vec` block replaced."""

import warnings
from copy import deepcopy
from difflib import get_close_matches
from typing import Any, Dict, List, Optional

from spacy import blank
from spacy.cli.init_config import init_config as make_spacy_config
from spacy.util import load_model_from_config, registry
from thinc.api import Config

from ..errors import Errors, Warnings
from ..pipeline import elmo as _elmo  # noqa: F401  registers the factory
from ..pipeline.task_layers import BAG_OF_WORDS, reduce_classifier

# Names to ignore: shared layers, which ELMo replaces, and empty names.
SHARED = ("", "elmo", "tok2vec", "transformer")
LISTENER = {"@architectures": "spacy-elmo.ElmoListener.v1", "layer_norm": "token"}
LOADER = {"@misc": "spacy-elmo.BiLMLoader.v1", "path": "${paths.bilm}"}
KB_LOADER = {"@misc": "spacy.KBFromFile.v1", "kb_path": "${paths.kb}"}
BOUNDARIES = ("sentencizer", "senter", "parser", "beam_parser")  # components that set sentence boundaries
LINKER = "entity_linker"
ENCODER_WIDTH = 200  # of the BiLSTM, both directions together
BATCH_SIZE = 256  # Docs per batch of `nlp.pipe`; with spaCy's 1,000 the layers need four times as much memory
NO_LISTENER = "it has no component that could listen to ELMo"
Block = Dict[str, Any]


def check_pipeline(pipeline: str, lang: str) -> List[str]:
    """pipeline (str): Names of factories, separated by commas.
    lang (str): Language code.
    RETURNS (List[str]): The names without those of shared layers.
    RAISES (ValueError): EL210 for unknown or duplicate names, or if there is none; EL212 for a language that spaCy does
        not know, or cannot tokenize without another package.
    """
    try:
        nlp = blank(lang)  # also loads the factories of spaCy and of installed packages
    except ImportError as error:
        raise ValueError(Errors.EL212.format(lang=lang, reason=error)) from error
    names = [name.strip() for name in pipeline.split(",") if name.strip() not in SHARED]
    problems = [] if names else [NO_LISTENER]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            problems.append(f"'{name}' is listed {names.count(name)} times")
        if not nlp.has_factory(name):
            problems.append(_describe_unknown(name))
    if problems:
        raise ValueError(Errors.EL210.format(pipeline=pipeline, lang=lang, problems="; ".join(problems)))
    return names


def make_pipeline_config(
    names: List[str], *, lang: str, optimize: str, placement: Optional[str], bilm: Optional[str], use_gpu: bool
) -> Config:
    """names (List[str]): Names of factories, from `check_pipeline`.
    lang (str): Language code.
    optimize (str): "efficiency": only a listener; "accuracy": a listener and word features, followed by an encoder.
    placement (Optional[str]): "input", "output" or "both" of a BiLSTM over word features; None as `optimize` says.
    bilm (Optional[str]): Name or path of the biLM; None if it will be given for training.
    use_gpu (bool): Let PyTorch and Thinc share the memory of a GPU.
    RETURNS (Config): Complete, not interpolated.
    RAISES (ValueError): EL210 if no component has a model that could listen to ELMo.
    """
    names = _add_boundaries(names)
    config = make_spacy_config(lang=lang, pipeline=names, optimize=optimize)
    tok2vec = _choose_tok2vec(lang, optimize, placement)
    components = {name: _listen(name, config["components"][name], tok2vec, placement) for name in names}
    if all(component == config["components"][name] for name, component in components.items()):
        raise ValueError(Errors.EL210.format(pipeline=",".join(names), lang=lang, problems=NO_LISTENER))
    config["components"] = {"elmo": {"factory": "elmo", "store": "layers"}, **components}
    config["nlp"].update(pipeline=["elmo", *names], batch_size=BATCH_SIZE)
    config["paths"].update(vectors=None, bilm=bilm)  # for accuracy, spaCy chooses vectors that must be downloaded
    config["system"]["gpu_allocator"] = "pytorch" if use_gpu else None
    config["initialize"]["components"]["elmo"] = {"loader": LOADER}
    filled = load_model_from_config(config, auto_fill=True).config
    if LINKER in names:
        _complete_linker(filled)  # not before: without a path, the loader of the knowledge base is not valid
    return filled


def _add_boundaries(names: List[str]) -> List[str]:
    """RETURNS (List[str]): With a sentencizer before an entity linker, if nothing before it finds sentences."""
    place = names.index(LINKER) if LINKER in names else 0
    needs_one = LINKER in names and not set(names[:place]) & set(BOUNDARIES)
    return [*names[:place], "sentencizer", *names[place:]] if needs_one else names


def _complete_linker(config: Config) -> None:
    """Add what training an entity linker needs: a knowledge base, and sentences."""
    names = config["nlp"]["pipeline"]
    before = names[: names.index(LINKER)]
    config["training"]["annotating_components"] = [name for name in before if name in BOUNDARIES]
    config["paths"]["kb"] = None
    config["initialize"]["components"][LINKER] = {"kb_loader": KB_LOADER}


def _describe_unknown(name: str) -> str:
    known = {factory.rpartition(".")[2] for factory in registry.factories.get_all()}  # some are called "en.lemmatizer"
    similar = get_close_matches(name, sorted(known), n=1)
    return f"there is no factory '{name}'" + (f" (did you mean '{similar[0]}'?)" if similar else "")


def _choose_tok2vec(lang: str, optimize: str, placement: Optional[str]) -> Block:
    if placement is not None:
        return _task_encoder(lang, placement)
    return LISTENER if optimize == "efficiency" else _beside_word_features(lang)


def _beside_word_features(lang: str) -> Block:
    """The network of configs/elmo_*.cfg: spaCy's word features concatenated with ELMo, then spaCy's small encoder."""
    shared = _shared_layers(lang)
    return {
        "@architectures": "spacy-elmo.Tok2VecWithElmo.v1",
        "embed": shared["embed"],
        "elmo": LISTENER,
        "encode": shared["encode"],
    }


def _task_encoder(lang: str, placement: str) -> Block:
    """The network of configs/task_*.cfg."""
    places = {"input": ("elmo_input",), "output": ("elmo_output",), "both": ("elmo_input", "elmo_output")}[placement]
    return {
        "@architectures": "spacy-elmo.ElmoTaskEncoder.v1",
        "embed": _shared_layers(lang)["embed"],
        "encode": {"@architectures": "spacy-elmo.BiLSTMEncoder.v1", "width": ENCODER_WIDTH},
        **dict.fromkeys(places, LISTENER),
    }


def _shared_layers(lang: str) -> Block:
    """RETURNS (Block): `embed` and `encode` of spaCy's own small `tok2vec` for a language, equally wide."""
    shared: Block = make_spacy_config(lang=lang, pipeline=["tagger"], optimize="efficiency")["components"]["tok2vec"]
    embed, encode = shared["model"]["embed"], shared["model"]["encode"]
    return {"embed": {**embed, "width": encode["width"]}, "encode": encode}


def _listen(name: str, component: Block, tok2vec: Block, placement: Optional[str]) -> Block:
    """RETURNS (Block): The component with its `tok2vec` replaced."""
    model = component.get("model")
    if not isinstance(model, dict):
        return component
    rewritten = _replace_tok2vec(_replace_bag_of_words(model, placement), tok2vec)
    if rewritten == model:
        warnings.warn(Warnings.WL123.format(name=name), stacklevel=2)
    return {**component, "model": rewritten}


def _replace_bag_of_words(model: Block, placement: Optional[str]) -> Block:
    """RETURNS (Block): In place of a classifier with a bag of words, one that reads vectors: with a placement one
    that takes the maximum and the mean, otherwise one that averages them, and an ensemble with a bag of words is kept.
    """
    bag = model if placement is None else model.get("linear_model", model)
    if not bag["@architectures"].startswith(BAG_OF_WORDS):
        return model
    kinds = ("mean",) if placement is None else ("max", "mean")
    return {**reduce_classifier(bag["exclusive_classes"], *kinds), "tok2vec": None}


def _replace_tok2vec(block: Block, tok2vec: Block) -> Block:
    rewritten: Block = {}
    for key, value in block.items():
        inner = _replace_tok2vec(value, tok2vec) if isinstance(value, dict) else value
        rewritten[key] = deepcopy(tok2vec) if key == "tok2vec" else inner
    return rewritten
