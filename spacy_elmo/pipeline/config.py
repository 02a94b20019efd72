"""A starter config for a pipeline with ELMo: that of `spacy init config`, with every `tok2vec` block replaced."""

import re
import warnings
from copy import deepcopy
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Dict, List, Optional, Set, Tuple

from spacy import blank
from spacy.cli.init_config import init_config as make_spacy_config
from spacy.util import load_model_from_config, registry
from thinc.api import Config

from ..errors import Errors
from ..weights.formats import PACKAGED_NAMES, locate
from ..weights.sources import Source, read_json
from .elmo import DEFAULT_CONFIG
from .task_layers import BAG_OF_WORDS, reduce_classifier

DEFAULT_PIPELINE = "tagger,parser,ner"  # as `spacy init config`
HEADER = """\
# {pipeline} with ELMo: the config of `spacy init config` for {optimize}, each component with its own mix of layers.
{network}# python -m spacy train {config_path} --output training --paths.train train.spacy --paths.dev dev.spacy{more}

"""
NETWORK = "# Differs from it: a BiLSTM over word features, with ELMo {place}.\n"
PLACES = {"input": "at the input", "output": "at the output", "both": "at the input and at the output"}
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
# Blocks of these architectures stand anywhere in a config: their comments are found by name, not by block.
ARCHITECTURES = ("ElmoTaskEncoder", "BiLSTMEncoder", "TextCatReduce", "ElmoListener")
Block = Dict[str, Any]


def make_pipeline_config(
    pipeline: str = DEFAULT_PIPELINE,
    *,
    lang: Optional[str] = None,
    optimize: Optional[str] = None,
    placement: Optional[str] = None,
    bilm: Optional[str] = None,
    use_gpu: bool = False,
    config_path: str = "config.cfg",
) -> str:
    """Create the config of a pipeline, complete and with comments.

    pipeline (str): Names of components, separated by commas.
    lang (Optional[str]): Language code; None for that of the biLM, or "en".
    optimize (Optional[str]): "efficiency": each component reads a listener; "accuracy": a listener and word features,
        followed by an encoder. None for accuracy with a placement, otherwise efficiency.
    placement (Optional[str]): ELMo at the "input", the "output" or "both" of a BiLSTM over word features; None as
        `optimize` says.
    bilm (Optional[str]): Name or path of a biLM; None: the packaged one of the language, or null.
    use_gpu (bool): Let PyTorch and Thinc share the memory of a GPU.
    config_path (str): Path of the config, for the command in its header.
    RETURNS (str): The text of the config.
    RAISES (ValueError): EL210 for an invalid pipeline or a language that spaCy does not know.
    """
    lang = lang or read_lang(bilm) or "en"
    names = _check_pipeline(pipeline, lang)
    bilm = choose_bilm(bilm, lang)
    optimize = optimize or ("efficiency" if placement is None else "accuracy")
    config = _make_blocks(names, lang, optimize, placement, bilm)
    config["system"]["gpu_allocator"] = "pytorch" if use_gpu else None
    filled = load_model_from_config(config, auto_fill=True).config
    if LINKER in names:
        _complete_linker(filled)  # not before: without a path, the loader of the knowledge base is not valid
    header = HEADER.format(
        pipeline=", ".join(names),
        optimize=optimize,
        network="" if placement is None else NETWORK.format(place=PLACES[placement]),
        config_path=config_path,
        more=missing_options(pipeline, bilm),
    )
    return header + _add_comments(filled.to_str(interpolate=False))


def missing_options(pipeline: str, bilm: Optional[str]) -> str:
    """RETURNS (str): What `spacy train` also needs: a biLM if the config names none, the data of an entity linker."""
    names = [name.strip() for name in pipeline.split(",")]
    return ("" if bilm else " --paths.bilm BILM") + (" --paths.kb kb" if LINKER in names else "")


def find_packaged(lang: str) -> Optional[str]:
    """RETURNS (Optional[str]): The packaged biLM of a language, None if there is none."""
    return next((name for name in PACKAGED_NAMES if name.startswith(f"{lang}_")), None)


def choose_bilm(bilm: Optional[str], lang: str) -> Optional[str]:
    """RETURNS (Optional[str]): The given biLM, with a warning if it does not exist; otherwise a packaged biLM of the
    language, or None with a warning.
    RAISES (ValueError): If it is empty.
    """
    if bilm is None:
        bilm = find_packaged(lang)
        if bilm is None:
            text = (
                f"The package contains no biLM for the language '{lang}', so the config specifies none. Pass --bilm "
                "PATH now, or --paths.bilm PATH (--paths.init PATH for adaptation) when you train."
            )
            warnings.warn(text, stacklevel=2)
        return bilm
    if not bilm.strip():
        raise ValueError(
            "--bilm is empty, should be the name of a packaged biLM or a path (is it a variable that is not set?). "
            "Name a biLM, or leave the option out."
        )
    if bilm not in PACKAGED_NAMES and not Path(bilm).exists():
        text = (
            f"'{bilm}' is neither a packaged biLM ({', '.join(PACKAGED_NAMES)}) nor an existing file or folder. The "
            "config specifies it nevertheless: put the weights there before you train."
        )
        warnings.warn(text, stacklevel=2)
    return bilm


def read_lang(bilm: Optional[str]) -> Optional[str]:
    """RETURNS (Optional[str]): That of a biLM in native format; other formats have none."""
    meta = None if bilm is None else locate(bilm) / "meta.json"
    record = read_json(Source(meta)) if meta is not None and meta.is_file() else None
    lang = record.get("lang") if isinstance(record, dict) else None
    return lang if isinstance(lang, str) and lang.strip() else None


def _check_pipeline(pipeline: str, lang: str) -> List[str]:
    """RETURNS (List[str]): Names of factories, without those of shared layers.
    RAISES (ValueError): EL210 for unknown or duplicate names, or if there is none; for a language that spaCy does not
        know, or cannot tokenize without another package.
    """
    try:
        nlp = blank(lang)  # also loads the factories of spaCy and of installed packages
    except ImportError as error:
        raise ValueError(
            f"spaCy cannot create a pipeline for the language '{lang}' ({error}). Install the packages it requires, or "
            "choose another code with --lang, for example en, or xx for any language."
        ) from error
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


def _make_blocks(names: List[str], lang: str, optimize: str, placement: Optional[str], bilm: Optional[str]) -> Config:
    """RETURNS (Config): That of spaCy, in which the components listen to ELMo.
    RAISES (ValueError): EL210 if no component has a model that could listen to ELMo.
    """
    names = _add_boundaries(names)
    config = make_spacy_config(lang=lang, pipeline=names, optimize=optimize)
    tok2vec = _make_tok2vec(lang, optimize, placement)
    components = {name: _listen(name, config["components"][name], tok2vec, placement) for name in names}
    if all(component == config["components"][name] for name, component in components.items()):
        raise ValueError(Errors.EL210.format(pipeline=",".join(names), lang=lang, problems=NO_LISTENER))
    config["components"] = {"elmo": {"factory": "elmo", "store": "layers"}, **components}
    config["nlp"].update(pipeline=["elmo", *names], batch_size=BATCH_SIZE)
    config["paths"].update(vectors=None, bilm=bilm)  # for accuracy, spaCy chooses vectors that must be downloaded
    config["initialize"]["components"]["elmo"] = {"loader": LOADER}
    return config


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


def _make_tok2vec(lang: str, optimize: str, placement: Optional[str]) -> Block:
    """RETURNS (Block): A listener, for efficiency; otherwise the network of configs/task_*.cfg if a placement is given,
    or that of configs/elmo_*.cfg: spaCy's word features concatenated with ELMo, then spaCy's small encoder.
    """
    if placement is None and optimize == "efficiency":
        return LISTENER
    shared = make_spacy_config(lang=lang, pipeline=["tagger"], optimize="efficiency")["components"]["tok2vec"]["model"]
    embed = {**shared["embed"], "width": shared["encode"]["width"]}
    if placement is None:
        name = "spacy-elmo.Tok2VecWithElmo.v1"
        return {"@architectures": name, "embed": embed, "elmo": LISTENER, "encode": shared["encode"]}
    places = {"input": ("elmo_input",), "output": ("elmo_output",), "both": ("elmo_input", "elmo_output")}[placement]
    return {
        "@architectures": "spacy-elmo.ElmoTaskEncoder.v1",
        "embed": embed,
        "encode": {"@architectures": "spacy-elmo.BiLSTMEncoder.v1", "width": ENCODER_WIDTH},
        **dict.fromkeys(places, LISTENER),
    }


def _listen(name: str, component: Block, tok2vec: Block, placement: Optional[str]) -> Block:
    """RETURNS (Block): The component with its `tok2vec` replaced."""
    model = component.get("model")
    if not isinstance(model, dict):
        return component
    rewritten = _replace_tok2vec(_replace_bag_of_words(model, placement), tok2vec)
    if rewritten == model:
        text = f"The component '{name}' does not listen to ELMo, because its model has no `tok2vec` block. The config "
        warnings.warn(text + "contains it as spaCy creates it.", stacklevel=2)
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


# Comments of the settings, in the form of a config. Those of the component are in `DEFAULT_CONFIG`.
COMMENTS = """
[paths]
# The biLM: name of a packaged biLM, or path of weights in any known format. null: pass --paths.bilm when you train.
bilm =
# The knowledge base of the entity linker, a folder that `kb.to_disk` wrote: pass --paths.kb when you train.
kb =

[nlp]
# Docs per batch of `nlp.pipe`; their layers are in memory together.
batch_size =

[entity_linker]
# Width of the entity vectors, that of the knowledge base.
entity_vector_length =

[training]
# Components that annotate Docs during training, for those behind them; an entity linker needs sentences.
annotating_components =

# ELMo at the input or the output of this component's encoder, or both: Peters et al. (2018), sec. 3.3 and 5.2.
[ElmoTaskEncoder]
# Dropout of the encoder's input, 0 to below 1; null for the dropout of [training].
dropout =
# ELMo at the encoder's input, or null for none.
elmo_input =
# ELMo at the encoder's output, or null for none.
elmo_output =

# A bidirectional LSTM over each Doc.
[BiLSTMEncoder]
# Width of the output, both directions together.
width =
# Number of layers.
depth =
# Dropout of the output of each layer, 0 to below 1; null for the dropout of [training].
dropout =

# Pools the token vectors of a Doc and scores the result: `spacy.TextCatReduce.v1` for batches with empty Docs, too.
[TextCatReduce]
# Whether each Doc has exactly one category.
exclusive_classes =
# Whether to use the first vector.
use_reduce_first =
# Whether to use the last vector.
use_reduce_last =
# Whether to use the maximum of each value.
use_reduce_max =
# Whether to use the mean of the vectors.
use_reduce_mean =
# Number of categories; null to infer it from the data.
nO =

# The layers of the biLM with a mix of this component's own: Peters et al. (2018), eq. 1.
[ElmoListener]
# Name of the ELMo component; "*" for the nearest one upstream.
upstream =
# Initial weights w before the softmax, one per layer, the token layer first; null for equal weights.
initial_weights =
# Whether to train w.
learn_weights =
# Initial scale gamma of the mix.
initial_gamma =
# Whether to train the scale gamma.
learn_gamma =
# Layer dropout: probability of leaving a layer out of the mix of a batch, 0 to below 1.
layer_dropout =
# L2 penalty on w; it regularizes towards equal weights.
weights_l2 =
# Layer norm before the mix: "token" (mean 0, variance 1 over the values of a token), the reference implementations'
# batch norms "bilm-tf" and "allennlp", or null.
layer_norm =
# Dropout probability of the mixed vector, 0 to below 1.
output_dropout =
# Width of a linear projection after the mix; null for none.
projection_width =
# "learned"; "fixed" (w stays as initial_weights gives it); "mean" of all layers; "top" (the highest layer alone).
mix =

# Reads the knowledge base from disk.
[initialize.components.entity_linker.kb_loader]
# See [paths].
kb_path =

# Loads the biLM when training starts; a trained pipeline contains its own copy.
[initialize.components.elmo.loader]
# Name or path of the biLM, see [paths].
path =
# Options file, if it is not in the folder of the weights.
options =
# Weights file, instead of `path`.
weights =
# Vocabulary file, one word per line; needed only by biLMs with word input.
vocab =
# HDF5 file with precomputed token vectors, in the order of `vocab`.
token_embeddings =
"""


def _add_comments(config: str) -> str:
    """Add comments above the settings of ELMo, for the first block of each architecture."""
    comments = {**_read_comments(DEFAULT_CONFIG), **_read_comments(COMMENTS)}
    names = _find_architectures(config)
    explained: Set[str] = set()
    lines: List[str] = []
    block = name = ""
    for line in config.splitlines():
        if line.startswith("["):
            explained.add(name)
            block = line.strip("[]")
            name = names.get(block, block.removeprefix("components."))
        is_repeated = name in ARCHITECTURES and name in explained and not line.startswith("[")
        lines += [] if is_repeated else comments.get((name, _key_of(line)), [])
        lines.append(line)
    return "\n".join(lines) + "\n"


def _find_architectures(config: str) -> Dict[str, str]:
    """RETURNS (Dict[str, str]): Names in `ARCHITECTURES` by their blocks."""
    pattern = rf'^\[(.+)\]\n@architectures = "spacy-elmo\.({"|".join(ARCHITECTURES)})\.v\d+"$'
    return dict(re.findall(pattern, config, flags=re.MULTILINE))


def _read_comments(text: str) -> Dict[Tuple[str, str], List[str]]:
    """RETURNS (Dict[Tuple[str, str], List[str]]): The comment lines above a setting, or above a block: (block, "")."""
    found: Dict[Tuple[str, str], List[str]] = {}
    block, waiting = "", []
    for line in text.splitlines():
        if line.startswith("#"):
            waiting.append(line)
            continue
        if line.startswith("["):
            block = line.strip("[]")
        if waiting:
            found[block, _key_of(line)] = waiting
        waiting = []
    return found


def _key_of(line: str) -> str:
    """RETURNS (str): The name of a setting, "" for the line of a block, "-" for any other."""
    if line.startswith("["):
        return ""
    return line.partition(" =")[0] if " =" in line else "-"
