"""Checks of a pipeline with ELMo: settings that would silently give wrong results, and mistakes in a config.

The component calls them in `initialize`, and before the first use after components were linked or weights were loaded.

Mixes, and all layers above them, fit the vectors of the biLM they were trained with. Vectors of another biLM of the
same sizes, or of the same biLM after further training, have the same shape and another meaning. So the label of the
biLM is saved with each listener.
"""

import warnings
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Sequence

from spacy.language import Language
from spacy.training import Example
from thinc.api import Model

from ..errors import Errors, Warnings
from ..util import shorten
from ..weights.published import describe_published
from .fine_tuning import SLANTED_TRIANGULAR
from .listener import ElmoListener
from .model import get_bilm, get_settings, get_shim
from .replaced_listener import find_listener_blocks
from .task_layers import has_elmo

ANY_LANGUAGE = "xx"  # spaCy's code for a pipeline of several languages
MAX_MODEL_NAME = 60  # characters of the name of a model, which may list all of its layers
Listeners = Mapping[str, Sequence[ElmoListener]]


# Before use


def check_bilm(elmo: Any) -> None:
    """Warn of components that were trained with another biLM: WL066.

    RAISES (ValueError): EL068 if a listener was trained for other sizes.
    """
    for listener in elmo.listeners:
        if listener.is_initialized:
            listener.check_sizes(*elmo.sizes)
    others = _find_other(elmo, elmo.listener_map)
    if others:
        warnings.warn(Warnings.WL066.format(**_describe_other(elmo, others)), stacklevel=5)


def _find_other(elmo: Any, names: Iterable[str]) -> Listeners:
    """RETURNS (Listeners): The listeners of these components that were trained with another biLM."""
    bilm, others = get_bilm(elmo.model), {}
    if bilm is None:
        return {}
    for name in names:
        labels = [(listener, listener.trained_with) for listener in elmo.listener_map[name]]
        others[name] = [listener for listener, label in labels if label and label.split()[0] != bilm.digest]
    return {name: listeners for name, listeners in others.items() if listeners}


def _describe_other(elmo: Any, others: Listeners) -> Dict[str, str]:
    trained = {listener.trained_with for listeners in others.values() for listener in listeners}
    trained_with = ", ".join(sorted(trained))
    return {"name": elmo.name, "components": _quote(others), "trained": trained_with, "current": elmo.bilm_label}


def check_language(name: str, trained_on: Any, used_on: str) -> None:
    """Warn if the languages of the biLM (in its meta.json, None if unknown) and of the pipeline differ: WL064."""
    languages = {str(code).lower().replace("_", "-").split("-")[0] for code in (trained_on, used_on)}
    if trained_on and used_on and len(languages) > 1 and ANY_LANGUAGE not in languages:
        published = describe_published(used_on)
        text = Warnings.WL064.format(name=name, trained_on=trained_on, used_on=used_on, published=published)
        warnings.warn(text, stacklevel=5)


def check_model(name: str, model: Model[Any, Any], is_fine: bool, expected: str) -> None:
    """ValueError if the model of a component does not have the expected architecture."""
    if not is_fine:
        model_name = shorten(model.name, MAX_MODEL_NAME)
        raise ValueError(
            f"The model of '{name}' is '{model_name}', should be the architecture {expected}. Change "
            f"[components.{name}.model], or use the factory that this model is for."
        )


# Before training


def check_examples_have_words(
    get_examples: Callable[[], Iterable[Example]], nlp: Optional[Language], name: str
) -> None:
    """ValueError if all tokens of the training examples are white space; the config of `nlp` may be the cause."""
    n_examples = 0
    for eg in get_examples():
        if not isinstance(eg, Example) or any(not token.is_space for token in eg.reference):  # spaCy reports the former
            return
        n_examples += 1
    limit = 0 if nlp is None else nlp.config.get("corpora", {}).get("train", {}).get("max_length")
    hint = f" max_length = {limit} in [corpora.train] drops Docs with as many tokens: raise it, or set it to 0."
    raise ValueError(
        f"The training data has no tokens: none of the {n_examples} training examples of '{name}' has a token "
        "other than white space. Set paths.train (or the path in [corpora.train]) to a .spacy file, or a folder of "
        f"them, that has annotated Docs.{hint if limit else ''}"
    )


def names_loader(nlp: Optional[Language], name: str) -> bool:
    """RETURNS (bool): Whether the config of the pipeline has a loader for the ELMo component."""
    blocks: Mapping[str, Any] = {} if nlp is None else nlp.config["initialize"]["components"]
    return bool(blocks.get(name, {}).get("loader"))


def check_weights(nlp: Language, elmo: Any, *, has_loader: bool) -> None:
    """Check which biLM the config of a pipeline gives, before it is loaded.

    RAISES (ValueError): For two biLMs, and for a loader of a component that is not in the pipeline. A path of a biLM
        that nothing reads is a warning.
    """
    blocks: Mapping[str, Any] = nlp.config["initialize"]["components"]
    if has_loader and elmo.weights is not None:
        raise ValueError(
            f"Two biLMs are given for '{elmo.name}': weights = \"{elmo.weights}\" in [components.{elmo.name}], and the "
            f"loader in [initialize.components.{elmo.name}.loader]. Remove this block, or set weights = null."
        )
    if has_loader or elmo.weights is not None or elmo.sizes is not None:
        return
    for block in set(blocks).difference(nlp.component_names):
        if str((blocks[block].get("loader") or {}).get("@misc")).startswith("spacy-elmo."):
            raise ValueError(
                f"[initialize.components.{block}.loader] gives a biLM, but the pipeline "
                f"({', '.join(nlp.component_names)}) has no component '{block}', so that nothing loads it. Rename "
                f"the block to [initialize.components.{elmo.name}.loader], or remove it."
            )
    config = nlp.config.interpolate()
    path = config.get("paths", {}).get("bilm")
    if path and not any(_contains_value(path, config[section]) for section in ("components", "initialize")):
        warnings.warn(
            f"paths.bilm is '{path}', but nothing reads it: '{elmo.name}' has no loader, and loads the packaged biLM. "
            f'Add [initialize.components.{elmo.name}.loader] with @misc = "spacy-elmo.BiLMLoader.v1" and this path, or '
            "set paths.bilm = null.",
            stacklevel=4,
        )


def _contains_value(value: Any, block: Any) -> bool:
    """RETURNS (bool): Whether a setting of a block, or of one below it, has this value."""
    return (
        any(_contains_value(value, inner) for inner in block.values())
        if isinstance(block, dict)
        else bool(block == value)
    )


def check_frozen(nlp: Optional[Language], elmo: Any) -> None:
    """Check components that an initialization of the pipeline leaves as they are, since they are frozen.

    nlp (Optional[Language]): The pipeline, of which only the components to initialize are enabled; None if only the
        ELMo component is initialized.
    elmo (ElmoComponent): The ELMo component, with the biLM of the training.
    RAISES (ValueError): EL083 if one was trained with another biLM, and if the biLM itself is trained.
    """
    training = {} if nlp is None else nlp.config.get("training", {})
    frozen = [name for name in training.get("frozen_components") or () if nlp and name not in nlp.pipe_names]
    listening = [name for name in elmo.listener_map if name in frozen]
    others = _find_other(elmo, listening)
    if others:
        raise ValueError(Errors.EL083.format(**_describe_other(elmo, others)))
    if nlp and listening and len(listening) < len(elmo.listener_map) and not get_settings(elmo.model).frozen:
        first = listening[0]
        paths = list(find_listener_blocks(nlp.get_pipe_config(first)["model"].get("tok2vec")))
        raise ValueError(
            f"The biLM of '{elmo.name}' is trained (frozen = false), but components in frozen_components read its "
            f"layers, which change with each update: {_quote(listening)}. Give each of them a copy of the biLM that "
            f"does not change (replace_listeners = {paths} in [components.{first}], beside its `source`), train them "
            f"too, or set frozen = true in [components.{elmo.name}.model]."
        )


def check_schedules(nlp: Optional[Language], elmo: Any) -> None:
    """Warn if training ends before gradual unfreezing reaches all layers, or before a slanted triangular schedule does.
    Without a pipeline only the ELMo component is initialized.
    """
    training = {} if nlp is None else nlp.config.interpolate().get("training", {})
    max_steps, rate = training.get("max_steps") or 0, training.get("optimizer", {}).get("learn_rate")
    tuner = get_shim(elmo.model).tuner
    left = tuner.find_left_frozen(max_steps) if tuner is not None and max_steps else []
    if left:
        warnings.warn(
            f"Layers {', '.join(map(str, left))} of the biLM of '{elmo.name}' will not be trained: unfreeze_every is "
            f"too large for {max_steps} updates. Set a smaller one in fine_tuning, or more max_steps; if this is "
            "intended, name the layers to train in `layers`, or set frozen = true.",
            stacklevel=4,
        )
    if isinstance(rate, dict) and rate.get("@schedules") == SLANTED_TRIANGULAR:
        num_steps, all_steps = rate.get("num_steps"), max_steps + rate.get("t", 0)
        if isinstance(num_steps, int) and max_steps and all_steps < num_steps:
            warnings.warn(
                f"The learning rate will not rise and fall as a whole: num_steps of {SLANTED_TRIANGULAR} is "
                f"{num_steps}, but training ends after {max_steps} updates. Pass "
                f"--training.optimizer.learn_rate.num_steps {all_steps} too.",
                stacklevel=4,
            )


LISTENER_BLOCK = """
[components.{component}.model.tok2vec]
@architectures = "spacy-elmo.ElmoListener.v1"
upstream = "{name}"
"""


def check_listeners(nlp: Language, name: str) -> bool:
    """Warn if the pipeline trains components, but not on ELMo, so that its layers are not used: WL065.

    RETURNS (bool): Whether it warned.
    """
    training = nlp.config.get("training", {})
    frozen, annotating = (training.get(f"{key}_components") or () for key in ("frozen", "annotating"))
    if name in frozen or name in annotating:  # the pipeline trains on the vectors of the component itself
        return False
    models = {
        other: getattr(pipe, "model", None)
        for other, pipe in nlp.pipeline
        if other != name and other not in frozen and not hasattr(pipe, "add_listener")
    }
    without_elmo = [other for other, model in models.items() if isinstance(model, Model) and not has_elmo(model)]
    if not without_elmo:
        return False
    names = list(nlp.pipe_names)
    earlier = [other for other in without_elmo if name in names and names.index(other) < names.index(name)]
    order = f" In `pipeline` of [nlp], move {_quote(earlier)} after '{name}'." if earlier else ""
    listening = [other for other in without_elmo if "tok2vec" in nlp.get_pipe_config(other).get("model", {})]
    blocks = "".join(LISTENER_BLOCK.format(component=other, name=name) for other in listening)
    text = Warnings.WL065.format(name=name, components=_quote(without_elmo), order=order, blocks=blocks)
    warnings.warn(text, stacklevel=4)
    return True


def _quote(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
