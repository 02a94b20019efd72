"""Messages with a code, which users may look up, filter or catch. Each says what is wrong, the value found, the value
wanted and what to do."""

from .analysis import AnalysisErrors
from .bilm import BiLMErrors
from .cli import CLIErrors
from .corpora import CorporaErrors
from .pipeline import PipelineErrors
from .pretraining import PretrainingErrors
from .warnings import Warnings
from .weights import WeightsErrors

__all__ = ["Errors", "Warnings"]


class Errors(
    BiLMErrors,
    WeightsErrors,
    CorporaErrors,
    PipelineErrors,
    PretrainingErrors,
    CLIErrors,
    AnalysisErrors,
):
    """Templates of all packages, for `str.format`."""
