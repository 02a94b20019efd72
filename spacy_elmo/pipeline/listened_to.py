"""Base class of a component with listeners, with the methods that spaCy requires of a Tok2Vec."""

from typing import Any, Dict, Iterable, Iterator, List, Sequence, Sized, Tuple

from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc
from thinc.api import Model

from ..errors import Errors
from ..ml.calling_pipeline import (
    config_of_training,
    is_linked,
    left_out_components,
    running_components,
    trained_pipeline,
)
from ..ml.elmo_model import get_label, get_settings
from ..ml.listener import ElmoListener, find_listeners, settings_of
from ..ml.missing_upstream import ANY_UPSTREAM
from ..ml.residual_width import infer_residual_widths
from ..ml.types import ElmoBatch
from .other_bilm import refuse_frozen_components, warn_of_other_bilm
from .training_check import check_frozen_listeners, check_order, check_resumed_training

# Codes of weights that are not those of the native format.
DAMAGED = ("EL003", "EL022", "EL023", "EL026")


class ListenedToPipe(TrainablePipe):  # type: ignore[misc]  # spaCy's class is compiled and has no types
    """A component with listeners.

    model (Model[List[Doc], ElmoBatch]): Computes layers.
    name (str): The component's name.
    prefix (str): Prefix under which the listeners find layers on Docs.
    listener_map (Dict[str, List[ElmoListener]]): Listeners by the name of their component.
    is_checked (bool): Whether all listeners are known to fit the biLM, or a warning named their components.
    """

    model: Model[List[Doc], ElmoBatch]
    name: str
    prefix: str
    listener_map: Dict[str, List[ElmoListener]]
    is_checked: bool = False

    def check_bilm(self) -> None:
        """Warn, at the first use after listeners were added or weights loaded, of components that were trained with
        another biLM: WL066. In `spacy train`, EL083 if they are frozen.
        """
        if not self.is_checked:
            refuse_frozen_components(trained_pipeline(), self, self.listener_map)
            self.is_checked = True
            warn_of_other_bilm(self, self.listener_map)

    def check_initialized(self, batch: Sequence[Sized]) -> None:
        """Refuse a listening component without weights that the pipeline is about to call: spaCy or Thinc could stop at
        it with another error before its listener is called.

        batch (Sequence[Sized]): Docs or examples. Components accept those without tokens before they are initialized.
        RAISES (ValueError): EL098.
        """
        if all(listener.is_initialized for listener in self.listeners) or not any(map(len, batch)):
            return
        for name, pipe in running_components().items():
            if any(node.upstream is self and not node.is_initialized for node in find_listeners(pipe)):
                raise ValueError(Errors.EL098.format(name=name))

    def fill(self) -> None:
        """Load weights if there are none."""
        raise NotImplementedError

    @property
    def listeners(self) -> List[ElmoListener]:
        """RETURNS (List[ElmoListener]): All listeners, grouped by component."""
        return [listener for listeners in self.listener_map.values() for listener in listeners]

    @property
    def bilm_label(self) -> str:
        """RETURNS (str): Which biLM it has: fingerprint, and name if there is one; empty without weights."""
        return get_label(self.model)

    @property
    def listening_components(self) -> List[str]:
        """RETURNS (List[str]): Names of the components that listen.
        RAISES (ValueError): EL068 if one was trained for other sizes, EL071 for a listener in the wrong place, EL083 if
            one that is frozen or disabled was trained with another biLM, EL088 if the biLM of such a one is trained,
            EL082 and EL435 if there is nothing to train a component with a `source` on. `spacy train` asks for the
            names before the first update: a component with a `source` is not initialized.
        """
        nlp = trained_pipeline()
        disabled: Dict[str, List[ElmoListener]] = {}
        if nlp is not None:
            disabled = self._find_more_listeners(nlp)
        for listener in self.listeners:
            listener.check_sizes()
        if nlp is not None:
            check_order(nlp)
            check_frozen_listeners(nlp, self, self.listener_map, disabled)
            if not is_linked():
                check_resumed_training(nlp, self)
        refuse_frozen_components(nlp, self, self.listener_map, disabled)
        return list(self.listener_map)

    def _find_more_listeners(self, nlp: Language) -> Dict[str, List[ElmoListener]]:
        """Link sourced components again: they are disabled when spaCy links all others at the end of `initialize`.

        RETURNS (Dict[str, List[ElmoListener]]): Trained listeners of components that stay disabled, by component.
        """
        disabled: Dict[str, List[ElmoListener]] = {}
        left_out = config_of_training().get("nlp", {}).get("disabled") or ()
        for name, listener in self._find_own_listeners(nlp):
            if name in nlp.pipe_names and listener not in self.listener_map.get(name, ()):
                self.add_listener(listener, name)
                self.is_checked = False
            elif name in left_out and name not in nlp.pipe_names and listener.is_initialized:
                disabled.setdefault(name, []).append(listener)
        return disabled

    def _find_own_listeners(self, nlp: Language) -> Iterator[Tuple[str, ElmoListener]]:
        """YIELDS (Tuple[str, ElmoListener]): Components that listen, or would if they were enabled."""
        names, nearer = list(nlp.component_names), []
        for name in names[names.index(self.name) + 1 :] if self.name in nlp.pipe_names else ():
            pipe, is_enabled = nlp.get_pipe(name), name in nlp.pipe_names
            if isinstance(pipe, ListenedToPipe):
                nearer.append(name)
            # Disabled components are enabled together with their own ELMo component.
            is_nearest = not any(other in nlp.pipe_names or not is_enabled for other in nearer)
            wanted = (ANY_UPSTREAM, self.name) if is_nearest else (self.name,)
            yield from ((name, listener) for listener in find_listeners(pipe) if listener.upstream_name in wanted)

    def add_listener(self, listener: ElmoListener, component_name: str) -> None:
        """listener (ElmoListener): A listener.
        component_name (str): Name of its component.
        RAISES (ValueError): EL076 for a norm that includes BOS and EOS with a biLM that is trained.
        """
        if settings_of(listener).needs_boundaries and not get_settings(self.model).frozen:
            raise ValueError(Errors.EL076)
        listeners = self.listener_map.setdefault(component_name, [])
        if listener not in listeners:
            listeners.append(listener)
        listener.link(self, component_name)

    def remove_listener(self, listener: ElmoListener, component_name: str) -> bool:
        """listener (ElmoListener): A listener.
        component_name (str): Name of its component.
        RETURNS (bool): Whether it was registered.
        """
        listeners = self.listener_map.get(component_name, [])
        if listener not in listeners:
            return False
        # A new list, since `Language.replace_listeners` removes listeners while it iterates over the old one.
        self.listener_map[component_name] = [other for other in listeners if other is not listener]
        if not self.listener_map[component_name]:
            del self.listener_map[component_name]
        return True

    def find_listeners(self, component: Any) -> None:
        """component (Any): A component downstream; its listeners are added if their upstream is this component.
        RAISES (ValueError): EL078 if it is an ELMo component with the same prefix.
        """
        if isinstance(component, ListenedToPipe) and component.prefix == self.prefix:
            raise ValueError(Errors.EL078.format(first=self.name, second=component.name, prefix=self.prefix))
        for listener in find_listeners(component):
            if listener.upstream_name in (ANY_UPSTREAM, self.name):
                self.add_listener(listener, component.name)
                infer_residual_widths(component.model)
            self.is_checked = False  # later, since an ELMo component that is nearer may take the listeners over

    def settle_left_out(self) -> None:
        """Before an update of the biLM: tell it to the listeners of components that take no part in it."""
        for pipe in left_out_components().values():
            for listener in find_listeners(pipe):
                if listener.upstream is self:
                    listener.miss_update()

    # Saving: a component without weights loads the packaged ones first

    def complete(self) -> None:
        """Before saving: load weights if there are none, and tell the listeners which biLM is saved with them."""
        self.fill()
        for listener in self.listeners:
            listener.label_bilm(self.bilm_label)

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """RETURNS (bytes): The component, weights included."""
        self.complete()
        data: bytes = super().to_bytes(exclude=exclude)
        return data

    def to_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> None:
        """path (Union[str, Path]): The folder to write."""
        self.complete()
        super().to_disk(path, exclude=exclude)

    def from_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> "ListenedToPipe":
        """path (Union[str, Path]): The folder to read.
        RETURNS (ListenedToPipe): The component.
        RAISES (ValueError): EL377 if its weights are damaged. RAISES (FileNotFoundError): EL377 if they are missing.
        """
        try:
            super().from_disk(path, exclude=exclude)
        except (ValueError, FileNotFoundError) as error:
            reason = str(error).rstrip(".")
            if reason.startswith("[EL") and reason[1:6] not in DAMAGED:  # of a setting
                raise
            kind = FileNotFoundError if isinstance(error, FileNotFoundError) else ValueError
            raise kind(Errors.EL377.format(name=self.name, path=path, reason=reason)) from error
        return self
