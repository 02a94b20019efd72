"""What the components `crf_ner` and `biaffine_parser` share: their labels, and checks of training data.

The model has scores for a fixed number of labels, which are collected or given when it is initialized.
"""

import math
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from itertools import islice
from typing import Any, Callable, Collection, Dict, Iterable, List, Optional, Sequence, Set, Tuple

from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer

from ..errors import Errors, Warnings
from ..inference.runtime import register_fork_handlers
from ..util import MAX_VALUE, shorten
from .checks import check_examples_have_words, check_model
from .crf import Integers, find_words

# spaCy's own layer gives a vector for each token; any other does.
DEFAULT_TOK2VEC = {
    **{"@architectures": "spacy.HashEmbedCNN.v2", "pretrained_vectors": None, "width": 96, "depth": 4},
    **{"embed_size": 2000, "window_size": 1, "maxout_pieces": 3, "subword_features": True},
}
N_INITIALIZATION_DOCS = 10  # Docs that the model is initialized with


class LabelledPipe(TrainablePipe):  # type: ignore[misc]  # spaCy's class is compiled and has no types
    """A component that is trained on annotation with labels. Attributes of the class:

    factory (str), spacy_factory (str): Its factory, and spaCy's for the same annotation.
    architecture (str), layer (str): Its model, and the reference of the layer there whose size depends on the labels.
    annotation (str), attributes (str): What it is trained on, and where a Doc has it.
    unknown_effect (str): What training does with labels that the component does not have.
    RAISES (ValueError): For a model of another kind.
    """

    factory: str
    spacy_factory: str
    architecture: str
    layer: str
    annotation: str
    attributes: str
    unknown_effect: str

    def __init__(
        self, vocab: Vocab, model: Model[Any, Any], name: str, *, scorer: Optional[Callable[..., Any]] = None
    ) -> None:
        self.vocab, self.model, self.name, self.scorer = vocab, model, name, scorer
        self.cfg: Dict[str, Any] = {"labels": []}
        self._has_checked_labels = False  # the labels of the training examples
        check_model(name, model, bool(model.has_ref(self.layer)), self.architecture)
        register_fork_handlers()

    # What a component defines

    @abstractmethod
    def read_labels(self, doc: Doc) -> Iterable[str]:
        """RETURNS (Iterable[str]): The labels of the annotation of a Doc."""

    @abstractmethod
    def set_label_count(self, n_labels: int) -> None:
        """Set the sizes of the model that depend on the number of labels."""

    @abstractmethod
    def compute_loss(self, examples: Sequence[Example], scores: Any) -> Tuple[float, Any]:
        """RETURNS (Tuple[float, Any]): The loss of the annotation, and its gradient."""

    # Labels

    @property
    def labels(self) -> Tuple[str, ...]:
        """RETURNS (Tuple[str, ...]): The labels, in the order of their scores."""
        return tuple(self.cfg["labels"])

    @property
    def label_data(self) -> Tuple[str, ...]:
        """RETURNS (Tuple[str, ...]): What `spacy init labels` writes and `initialize` takes."""
        return self.labels

    def add_label(self, label: str) -> int:
        """label (str): A label to add, before the component is initialized.
        RETURNS (int): 1, or 0 for a known label.
        RAISES (ValueError): If it is not a text, if the component is initialized.
        """
        if not isinstance(label, str) or not label:
            raise ValueError(
                f"The label of '{self.name}' is {label!r}, should be a text that is not empty. Correct the label."
            )
        if label in self.labels:
            return 0
        if self.model.get_ref(self.layer).has_dim("nO"):
            raise ValueError(
                f"The label '{label}' cannot be added to '{self.name}', which is initialized with the labels "
                f"{_list_labels(self.labels)}: its model has scores for these only. Add all labels before "
                "`nlp.initialize`, or add a new component."
            )
        self.cfg["labels"].append(label)
        self.vocab.strings.add(label)
        return 1

    def find_doc_words(self, docs: Iterable[Doc]) -> List[Integers]:
        """RETURNS (List[Integers]): The tokens of each Doc that are not white space.
        RAISES (ValueError): EL098 if the component is not initialized.
        """
        layer = self.model.get_ref(self.layer)
        if not all(layer.has_param(name) for name in layer.param_names):
            raise ValueError(Errors.EL098.format(name=self.name))
        return [find_words(doc) for doc in docs]

    # Training

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Optional[Language] = None,
        labels: Any = None,
    ) -> None:
        """Collect labels, and initialize the model for them.

        labels (Optional[Iterable[str]]): The labels; None to collect them. Labels that were added before stay. A
            warning if no example has any of them.
        RAISES (ValueError): If there is no word to train on, if `labels` is a text or a mapping, if there is no label,
            for a label that is new to an initialized component.
        """
        if callable(get_examples):
            check_examples_have_words(get_examples, nlp, self.name)
        validate_get_examples(get_examples, f"{type(self).__name__}.initialize")
        block = f"[initialize.components.{self.name}.labels]"
        reason = "the given list of labels is empty"
        if labels is None:
            collected, n_examples = self._collect_labels(get_examples())
            labels = sorted(collected)
            reason = f"the {n_examples} training examples have no {self.annotation}"
        elif isinstance(labels, (str, bytes, Mapping)) or not isinstance(labels, Iterable):
            raise ValueError(
                f"The labels of '{self.name}' are {shorten(repr(labels), MAX_VALUE)}, should be a list of texts, as "
                f"`spacy init labels` writes it for a component '{self.factory}' (for '{self.spacy_factory}' it "
                f"writes the actions of a transition system). Correct {block}, or remove it to collect the labels from "
                "the training data."
            )
        else:
            labels = list(labels)
            texts = [label for label in labels if isinstance(label, str)]
            used, _ = self._collect_labels(get_examples(), enough=texts)
            if labels and used and used.isdisjoint(texts):
                warnings.warn(
                    f"None of the labels given for '{self.name}' ({_list_labels(labels)}) is in the training examples, "
                    f"whose {self.annotation} have {_list_labels(sorted(used))}: it would learn no label. Correct "
                    f"{block}, or remove it to collect the labels from the training data.",
                    stacklevel=2,
                )
        for label in labels:
            self.add_label(label)
        if not self.labels:
            raise ValueError(
                f"The component '{self.name}' has no labels: {reason}. Annotate {self.annotation} ({self.attributes}), "
                f"or give the labels: `add_label` before `nlp.initialize`, or {block}."
            )
        self._has_checked_labels = True
        self.set_label_count(len(self.labels))
        self.model.initialize(X=[eg.predicted for eg in islice(get_examples(), N_INITIALIZATION_DOCS)])

    def get_loss(self, examples: Iterable[Example], scores: Any) -> Tuple[float, Any]:
        """The loss of the annotation, see `compute_loss`.

        RETURNS (Tuple[float, Any]): The loss and its gradient.
        RAISES (ValueError): If the loss is not a finite number. WL075 if a component that was trained before is
            trained on other labels.
        """
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.get_loss")
        if not self._has_checked_labels:
            self._check_labels(examples)
        loss, d_scores = self.compute_loss(examples, scores)
        if not math.isfinite(loss):
            raise ValueError(
                f"The loss of '{self.name}' is {loss}, should be a finite number. Lower the learning rate, or "
                "set grad_clip in [training.optimizer]."
            )
        return loss, d_scores

    def rehearse(
        self,
        examples: Iterable[Example],
        *,
        sgd: Optional[Optimizer] = None,
        losses: Optional[Dict[str, float]] = None,
        **config: Any,
    ) -> Dict[str, float]:
        """RAISES (NotImplementedError): Always."""
        raise NotImplementedError(
            f"The component '{self.name}' does not support rehearsal (`nlp.rehearse`). Leave it out "
            f'(`nlp.rehearse(examples, exclude=["{self.name}"])`), and train it with `nlp.update` on old and '
            "new examples."
        )

    def _check_labels(self, examples: Sequence[Example]) -> None:
        """Warn, once, of labels in the first annotated batch that the component does not have: WL075."""
        labels, _ = self._collect_labels(examples)
        unknown = sorted(labels.difference(self.labels))
        self._has_checked_labels = bool(labels)
        if unknown:
            shown = {"unknown": _list_labels(unknown), "known": _list_labels(self.labels)}
            effects = {"annotated": self.annotation, "effect": self.unknown_effect}
            warnings.warn(Warnings.WL075.format(name=self.name, **effects, **shown), stacklevel=4)

    def _collect_labels(self, examples: Iterable[Example], enough: Collection[str] = ()) -> Tuple[Set[str], int]:
        """Labels of the annotation, and the number of examples read; one of the labels in `enough` ends the search."""
        labels: Set[str] = set()
        n_examples = 0
        for eg in examples:
            n_examples += 1
            labels.update(self.read_labels(eg.reference))
            if not labels.isdisjoint(enough):
                break
        return labels, n_examples


def _list_labels(labels: Iterable[Any]) -> str:
    return shorten(", ".join(map(repr, labels)), MAX_VALUE)
