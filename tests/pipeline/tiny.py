"""A tiny biLM with random weights, and pipelines around it."""

from typing import Any, Dict, List, Optional, Tuple

import numpy
import spacy
from nn.tiny import N_LAYERS as N_LAYERS
from nn.tiny import SIZES as BILM
from nn.tiny import WIDTH as WIDTH
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from thinc.api import Adam

from spacy_elmo.pipeline import component as _component  # noqa: F401  registers factories where the package is not installed
from spacy_elmo.pipeline.model import get_bilm, make_random_bilm

WIDE = {**BILM, "projection_width": 12}
LISTENER = {"@architectures": "spacy-elmo.ElmoListener.v1"}
TEXTS = [
    "She sat on the bank of the river.",
    "The bank raised its rates.  It was a Tuesday.",
    "",
    "Berlin",
    "  \n ",
    "Ana lives in Oslo with Bob; they like the sea \U0001f30a.",
]
TAGGED = [
    (["She", "sat", "on", "the", "bank"], ["PRON", "VERB", "ADP", "DET", "NOUN"]),
    (["The", "bank", "raised", "rates"], ["DET", "NOUN", "VERB", "NOUN"]),
    (["Rivers", "flow", "slowly"], ["NOUN", "VERB", "ADV"]),
]


def loader_block(seed: int = 1, bilm: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    return {"loader": {"@misc": "spacy-elmo.RandomBiLM.v1", "bilm": bilm or BILM, "seed": seed}}


def add_elmo(
    nlp: Language, name: str = "elmo", seed: int = 1, bilm: Optional[Dict[str, Any]] = None, **config: Any
) -> Any:
    component = nlp.add_pipe("elmo", name=name, config=config)
    nlp.config["initialize"]["components"][name] = loader_block(seed, bilm)
    component.initialize(lambda: [make_example(nlp)], nlp=nlp, loader=lambda: make_random_bilm(bilm or BILM, seed))
    return component


def with_elmo(name: str = "elmo", **settings: Any) -> Language:
    """RETURNS (Language): A blank pipeline with a component of `add_elmo`."""
    nlp = spacy.blank("en")
    add_elmo(nlp, name, **settings)
    return nlp


def make_example(nlp: Language) -> Example:
    return Example.from_dict(nlp.make_doc("one"), {})


def make_examples(nlp: Language) -> List[Example]:
    """Sentences with annotations for every component."""
    examples = []
    for words, tags in TAGGED:
        doc = Doc(nlp.vocab, words=words)
        entities = ["O"] * len(words)
        entities[1] = "U-THING"
        cats = {"SHORT": float(len(words) < 4), "LONG": float(len(words) >= 4)}
        heads, deps = [1] * len(words), ["dep"] * len(words)
        deps[1] = "ROOT"
        record = {"words": words, "tags": tags, "entities": entities, "cats": cats, "heads": heads, "deps": deps}
        record["morphs"] = ["A=B" if i % 2 else "A=C" for i in range(len(words))]
        record["lemmas"] = [word.lower().removesuffix("s") for word in words]
        examples.append(Example.from_dict(doc, record))
        examples[-1].reference.spans["sc"] = [Span(examples[-1].reference, 0, 2, label="START")]
    return examples


def listening(architecture: str = "spacy.Tagger.v2", **listener: Any) -> Dict[str, Any]:
    return {"model": {"@architectures": architecture, "tok2vec": {**LISTENER, **listener}}}


def make_tagger(tok2vec: Optional[Dict[str, Any]] = None, **settings: Any) -> Language:
    nlp = with_elmo(**settings)
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec or LISTENER}})
    nlp.initialize(lambda: make_examples(nlp))
    return nlp


def train(nlp: Language, n_updates: int = 3, sgd: Any = None, **settings: Any) -> Dict[str, float]:
    """Two updates at least reach the biLM: the output layer begins with zeros. RETURNS: The last losses."""
    optimizer = sgd or Adam(0.05)
    for _ in range(n_updates):
        losses = nlp.update(make_examples(nlp), sgd=optimizer, **settings)
    return losses


def get_bilm_weights(nlp: Language, name: str = "elmo") -> Dict[str, Any]:
    network = get_bilm(nlp.get_pipe(name).model).network
    return {key: value.detach().clone().numpy() for key, value in network.state_dict().items()}


def are_equal(one: Dict[str, Any], other: Dict[str, Any]) -> bool:
    return all(numpy.array_equal(array, other[key]) for key, array in one.items())


def restore(doc: Doc, how: str = "bytes") -> Doc:
    """RETURNS (Doc): A copy from bytes, or from a DocBin."""
    if how == "bytes":
        return Doc(doc.vocab).from_bytes(doc.to_bytes())
    data = DocBin(docs=[doc], store_user_data=True).to_bytes()
    return next(DocBin(store_user_data=True).from_bytes(data).get_docs(doc.vocab))


# Components on a task encoder: ELMo beside the input, the output, or both

EMBED: Dict[str, Any] = {
    "@architectures": "spacy.MultiHashEmbed.v2",
    "width": 6,
    "attrs": ["NORM", "SHAPE"],
    "rows": [50, 20],
    "include_static_vectors": False,
}
BILSTM: Dict[str, Any] = {"@architectures": "spacy-elmo.BiLSTMEncoder.v1", "width": 10, "depth": 1}
WINDOW: Dict[str, Any] = {
    "@architectures": "spacy.MaxoutWindowEncoder.v2",
    "width": 8,
    "window_size": 1,
    "maxout_pieces": 2,
    "depth": 1,
}
# Different settings, so that mixes that are mistaken for each other are noticed.
INPUT = {**LISTENER, "initial_weights": [0.5, -0.5, 1.0], "layer_norm": "token"}
OUTPUT = {**LISTENER, "initial_gamma": 2.0, "projection_width": 5}
PLACEMENTS: Dict[str, Dict[str, Any]] = {
    "input": {"elmo_input": INPUT},
    "output": {"elmo_output": OUTPUT},
    "both": {"elmo_input": INPUT, "elmo_output": OUTPUT},
}


def task_encoder(placement: str = "both", encode: Dict[str, Any] = BILSTM, **settings: Any) -> Dict[str, Any]:
    encoder = {"@architectures": "spacy-elmo.ElmoTaskEncoder.v1", "embed": EMBED, "encode": encode}
    return {**encoder, **PLACEMENTS[placement], **settings}


# Components and every kind of tok2vec that can listen

CNN: Dict[str, Any] = {
    "@architectures": "spacy.HashEmbedCNN.v2",
    "pretrained_vectors": None,
    "width": 8,
    "depth": 1,
    "embed_size": 50,
    "window_size": 1,
    "maxout_pieces": 2,
    "subword_features": True,
}
ENSEMBLE: Dict[str, Any] = {
    "@architectures": "spacy.TextCatEnsemble.v2",
    "linear_model": {
        "@architectures": "spacy.TextCatBOW.v3",
        "exclusive_classes": True,
        "length": 262144,
        "ngram_size": 1,
        "no_output_layer": False,
    },
}
COMPONENTS: Dict[str, Dict[str, Any]] = {
    **{name: {} for name in ("tagger", "morphologizer", "senter", "ner", "spancat")},
    "trainable_lemmatizer": {"min_tree_freq": 1},
    "parser": {"min_action_freq": 1},
    "biaffine_parser": {"model": {"arc_width": 16, "label_width": 16}},
    "textcat": {
        "model": {"@architectures": "spacy-elmo.TextCatReduce.v1", "exclusive_classes": True, "use_reduce_max": True}
    },
    "textcat_multilabel": {"model": ENSEMBLE},
}
# Every kind of tok2vec, with the paths of its listeners.
TOK2VECS: Dict[str, Tuple[Dict[str, Any], List[str]]] = {
    "listener": (LISTENER, ["model.tok2vec"]),
    "projection": ({**LISTENER, "projection_width": 5}, ["model.tok2vec"]),
    "concatenate": (
        {"@layers": "concatenate.v1", "*": {"own": CNN, "elmo": LISTENER}},
        ["model.tok2vec.*.elmo"],
    ),
    "twice": (
        {"@layers": "concatenate.v1", "*": {"one": LISTENER, "two": {**LISTENER, "projection_width": 3}}},
        ["model.tok2vec.*.one", "model.tok2vec.*.two"],
    ),
    "with elmo": (
        {"@architectures": "spacy-elmo.Tok2VecWithElmo.v1", "embed": CNN, "elmo": LISTENER},
        ["model.tok2vec.elmo"],
    ),
    "encoded": (
        {"@architectures": "spacy-elmo.Tok2VecWithElmo.v1", "embed": CNN, "elmo": LISTENER, "encode": WINDOW},
        ["model.tok2vec.elmo"],
    ),
    "embed": (
        {"@architectures": "spacy.Tok2Vec.v2", "embed": {**LISTENER, "projection_width": 8}, "encode": WINDOW},
        ["model.tok2vec.embed"],
    ),
    **{
        f"task encoder, {name}": (task_encoder(name), [f"model.tok2vec.{key}" for key in blocks])
        for name, blocks in PLACEMENTS.items()
    },
    "task encoder, window": (task_encoder("both", WINDOW), ["model.tok2vec.elmo_input", "model.tok2vec.elmo_output"]),
}


def configure(name: str, tok2vec: Dict[str, Any] = LISTENER) -> Dict[str, Any]:
    config = COMPONENTS[name]
    return {**config, "model": {**config.get("model", {}), "tok2vec": tok2vec}}
