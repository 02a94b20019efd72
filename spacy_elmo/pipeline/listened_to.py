"""A component that others listen to, with the methods that spaCy asks of its Tok2Vec."""

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
    """Knows its listeners.

    model (Model[List[Doc], ElmoBatch]): Docs to layers.
    name (str): The component's name.
    prefix (str): Where on the Docs the listeners find layers.
    listener_map (Dict[str, List[ElmoListener]]): Listeners by the name of the component they belong to.
    """

    model: Model[List[Doc], ElmoBatch]
    name: str
    prefix: str
    listener_map: Dict[str, List[ElmoListener]]

    @property
    def listeners(self) -> List[ElmoListener]:
        """RETURNS (List[ElmoListener]): The listeners, component after component."""
        return [listener for listeners in self.listener_map.values() for listener in listeners]

    @property
    def listening_components(self) -> List[str]:
        """RETURNS (List[str]): Names of the components that listen."""
        return list(self.listener_map)

    def add_listener(self, listener: ElmoListener, component_name: str) -> None:
        """listener (ElmoListener): A listener.
        component_name (str): The component it belongs to.
        RAISES (ValueError): EL076 for a norm that counts boundaries, and a biLM that is trained.
        """
        if settings_of(listener).needs_marks and not get_settings(self.model).frozen:
            raise ValueError(Errors.EL076)
        listeners = self.listener_map.setdefault(component_name, [])
        if listener not in listeners:
            listeners.append(listener)
        listener.link(self, component_name)

    def remove_listener(self, listener: ElmoListener, component_name: str) -> bool:
        """listener (ElmoListener): A listener.
        component_name (str): The component it belongs to.
        RETURNS (bool): Whether it was known.
        """
        listeners = self.listener_map.get(component_name, [])
        if listener not in listeners:
            return False
        # A new list: `Language.replace_listeners` removes while it iterates over the old one.
        self.listener_map[component_name] = [other for other in listeners if other is not listener]
        if not self.listener_map[component_name]:
            del self.listener_map[component_name]
        return True

    def find_listeners(self, component: Any) -> None:
        """component (Any): A component further down, whose listeners are added if they mean this component.
        RAISES (ValueError): EL078 if it is an ELMo component that writes where this one does.
        """
        if isinstance(component, ListenedToPipe) and component.prefix == self.prefix:
            raise ValueError(Errors.EL078.format(first=self.name, second=component.name, prefix=self.prefix))
        if isinstance(getattr(component, "model", None), Model):
            for listener in get_listeners(component.model):
                if listener.upstream_name in (ANY_UPSTREAM, self.name):
                    self.add_listener(listener, component.name)
                    infer_residual_widths(component.model)
