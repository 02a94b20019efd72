"""Base class of a component with listeners, with the methods that spaCy requires of a Tok2Vec."""

from typing import Any, Dict, List

from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc
from thinc.api import Model

from ..errors import Errors
from ..ml.elmo_model import get_settings
from ..ml.listener import ANY_UPSTREAM, ElmoListener, get_listeners, settings_of
from ..ml.residual_width import infer_residual_widths
from ..ml.types import ElmoBatch


class ListenedToPipe(TrainablePipe):  # type: ignore[misc]  # spaCy's class is compiled and has no types
    """A component with listeners.

    model (Model[List[Doc], ElmoBatch]): Computes layers.
    name (str): The component's name.
    prefix (str): Prefix under which the listeners find layers on Docs.
    listener_map (Dict[str, List[ElmoListener]]): Listeners by the name of their component.
    """

    model: Model[List[Doc], ElmoBatch]
    name: str
    prefix: str
    listener_map: Dict[str, List[ElmoListener]]

    @property
    def listeners(self) -> List[ElmoListener]:
        """RETURNS (List[ElmoListener]): All listeners, grouped by component."""
        return [listener for listeners in self.listener_map.values() for listener in listeners]

    @property
    def listening_components(self) -> List[str]:
        """RETURNS (List[str]): Names of the components that listen."""
        return list(self.listener_map)

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
        if isinstance(getattr(component, "model", None), Model):
            for listener in get_listeners(component.model):
                if listener.upstream_name in (ANY_UPSTREAM, self.name):
                    self.add_listener(listener, component.name)
                    infer_residual_widths(component.model)
