"""Types of settings: pydantic checks values where a layer or component is made, and names setting, value and limits.

Registered functions have `Literal` types for names, so that configs are checked before anything is made.
"""

from typing import Annotated, Literal

from pydantic import Field

from ..util import FLOAT32_MAX
from ..util import DType as DType
from ..util import Precision as Precision
from ..util import State as State

Count = Annotated[int, Field(strict=True, ge=1)]
WholeNumber = Annotated[int, Field(strict=True, ge=0)]
Number = Annotated[float, Field(strict=True, ge=-FLOAT32_MAX, le=FLOAT32_MAX)]
Positive = Annotated[float, Field(strict=True, gt=0, le=FLOAT32_MAX)]
NotNegative = Annotated[float, Field(strict=True, ge=0, le=FLOAT32_MAX)]
Probability = Annotated[float, Field(strict=True, ge=0, lt=1)]
Flag = Annotated[bool, Field(strict=True)]
Prefix = Annotated[str, Field(pattern=r"^[^\W\d]\w*$")]  # a Python name
WeightsPath = Annotated[str, Field(pattern=r"\S")]

Contexts = Literal["auto", "sentences", "doc"]
Store = Literal["mixed", "layers", "both"]
LayerNorm = Literal["token", "bilm-tf"]
Mix = Literal["learned", "fixed", "mean", "top", "concat"]
