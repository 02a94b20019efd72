"""The error of a component whose model is of another kind."""

from typing import Any

from thinc.api import Model

from ..errors import Errors
from ..ml.elmo_model import MODEL_NAME

MAX_SHOWN = 60  # characters of the name of a model, which may list all of its layers


def check_model(name: str, model: Model[Any, Any]) -> None:
    """RAISES (ValueError): EL087 if the model of an ELMo component is another one than `spacy-elmo.ElmoModel.v1`."""
    if model.name != MODEL_NAME:
        raise wrong_model(name, model, "spacy-elmo.ElmoModel.v1")


def wrong_model(name: str, model: Model[Any, Any], wanted: str) -> ValueError:
    """name (str): Of the component.
    model (Model): Its model.
    wanted (str): The architecture that it should be.
    RETURNS (ValueError): EL087.
    """
    found = model.name if len(model.name) <= MAX_SHOWN else f"{model.name[:MAX_SHOWN]}..."
    return ValueError(Errors.EL087.format(name=name, found=found, wanted=wanted))
