"""The config of a biLM: sizes and options, validated on construction.

Peters et al. (2018), sec. 3.1 and 3.4; `weights/` maps the names of the original options file.
"""

from dataclasses import asdict, dataclass, fields
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .._settings import fit_types, refuse_unknown
from ..errors import Errors
from .transformer_config import TransformerConfig, transformer_problems

ACTIVATIONS = ("relu", "tanh")
DIRECTIONS = ("both", "forward")
PROJECTIONS = ("after_highway", "after_cnn")
ENCODERS = ("lstm", "transformer")  # see `bilm/encoder.py`
CODECS = {"utf8": 261}  # character codecs, see `text/codecs.py`, and their numbers of characters
LSTM_SETTINGS = ("cell_width", "cell_clip", "projection_clip", "has_skip", "highway_between")
# Not written at their default, so that files and checkpoints of LSTMs do not change.
OMITTED = {"projection": "after_highway", "has_layer_norm": False, "transformer": None}


@dataclass(frozen=True)
class CharCNNConfig:
    """The config of the character CNN, which maps the bytes of a word to a vector (Kim et al. 2016).

    embedding_width (int): Width E of a character vector.
    filters (Tuple[Tuple[int, int], ...]): Pairs of window width (characters) and number of filters.
    activation (str): "relu" or "tanh", after the maximum over positions.
    n_highway (int): Highway layers over the pooled filters, 0 for none.
    max_characters (int): C, ids per word, including begin and end of word.
    always_project (bool): A linear map from F to P follows even if F equals P (AllenNLP; bilm-tf omits it).
    codec (str): Character codec: "utf8", bytes between begin-of-word and end-of-word ids.
    n_characters (int): Characters of the codec; id 0 is the mask, so the embedding has one more row.
    projection (str): Position of the linear map from F to P: "after_highway", or "after_cnn" for highways of width P.
    has_layer_norm (bool): Normalize the vector of a word (Ba et al. 2016), as in the transformer of AllenNLP.
    """

    embedding_width: int = 16
    filters: Tuple[Tuple[int, int], ...] = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    activation: str = "relu"
    n_highway: int = 2
    max_characters: int = 50
    always_project: bool = False
    codec: str = "utf8"
    n_characters: int = CODECS["utf8"]
    projection: str = "after_highway"
    has_layer_norm: bool = False

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise ValueError(Errors.EL002.format(block="char_cnn block", problems="; ".join(problems)))

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "CharCNNConfig":
        """record (Mapping[str, Any]): Plain JSON types; omitted settings have their default.
        RAISES (ValueError): EL001 for unknown settings, EL002 for invalid values.
        """
        refuse_unknown(cls, record, "the char_cnn block")
        settings, problems = fit_types(cls, record)
        if problems:
            raise ValueError(Errors.EL002.format(block="char_cnn block", problems="; ".join(problems)))
        return cls(**settings)

    @property
    def n_filters(self) -> int:
        """RETURNS (int): F, the filters of all widths together."""
        return sum(n for _, n in self.filters)

    def projects_to(self, output_width: int) -> bool:
        """RETURNS (bool): Whether a linear map from F to `output_width` follows."""
        return self.always_project or self.n_filters != output_width

    def highway_width(self, output_width: int) -> int:
        """RETURNS (int): Width of the highways: F, or P if the linear map to `output_width` precedes them."""
        return output_width if self.projection == "after_cnn" else self.n_filters

    def _problems(self) -> List[str]:
        checks = [
            (self.embedding_width >= 1, f"embedding_width is {self.embedding_width}, should be 1 or more"),
            (len(self.filters) >= 1, "filters is empty, should name at least one [width, number]"),
            (self.activation in ACTIVATIONS, f"activation is '{self.activation}', should be one of {ACTIVATIONS}"),
            (self.n_highway >= 0, f"n_highway is {self.n_highway}, should be 0 or more"),
            (self.max_characters >= 4, f"max_characters is {self.max_characters}, should be 4 or more"),
            (self.projection in PROJECTIONS, f"projection is '{self.projection}', should be one of {PROJECTIONS}"),
            (self.codec in CODECS, f"codec is '{self.codec}', should be one of {tuple(CODECS)}"),
        ]
        if self.codec in CODECS:
            n = CODECS[self.codec]
            checks.append((self.n_characters == n, f"n_characters is {self.n_characters}, should be {n}"))
        for width, number in self.filters:
            checks.append((number >= 1, f"filter [{width}, {number}] should have 1 filter or more"))
            fits = 1 <= width <= self.max_characters
            checks.append((fits, f"filter [{width}, {number}] should be 1 to {self.max_characters} characters wide"))
        return [text for is_fine, text in checks if not is_fine]


@dataclass(frozen=True)
class BiLMConfig:
    """The config of a biLM: word input, encoder, directions.

    char_cnn (Optional[CharCNNConfig]): Character input; None for word input.
    n_words (Optional[int]): Rows of the word embedding, for word input.
    n_layers (int): L, layers of the encoder per direction.
    cell_width (int): H, width of the memory cell of an LSTM.
    projection_width (int): P, width of one direction's output; vectors have 2P. Equal to `cell_width`: no projection.
    cell_clip (Optional[float]): Maximum absolute value of the memory cell, None for no clip.
    projection_clip (Optional[float]): Maximum absolute value of a projected output, None for no clip.
    has_skip (bool): Skip connections: from the second layer on, the input is added to the output.
    highway_between (bool): Highways: from the second layer on, a gate mixes input and output (Srivastava et al. 2015).
    directions (str): "both", or "forward" for a plain language model.
    encoder (str): The encoder above the words: "lstm", or "transformer" (Peters et al. 2018b), for which cell_width,
        clips, has_skip and highway_between are left out.
    transformer (Optional[TransformerConfig]): Sizes of a transformer; None for an LSTM.
    """

    char_cnn: Optional[CharCNNConfig] = None
    n_words: Optional[int] = None
    n_layers: int = 2
    cell_width: int = 4096
    projection_width: int = 512
    cell_clip: Optional[float] = 3.0
    projection_clip: Optional[float] = 3.0
    has_skip: bool = True
    directions: str = "both"
    highway_between: bool = False
    encoder: str = "lstm"
    transformer: Optional[TransformerConfig] = None

    def __post_init__(self) -> None:
        problems = self._problems()
        if problems:
            raise ValueError(Errors.EL002.format(block="biLM config", problems="; ".join(problems)))

    @property
    def n_directions(self) -> int:
        """RETURNS (int): 2, or 1 for a forward model."""
        return 2 if self.directions == "both" else 1

    @property
    def has_state(self) -> bool:
        """RETURNS (bool): Whether the encoder has a recurrent state."""
        return self.encoder == "lstm"

    @property
    def has_projection(self) -> bool:
        """RETURNS (bool): Whether a linear map from H to P follows the cell."""
        return self.projection_width < self.cell_width

    @property
    def has_cnn_projection(self) -> bool:
        """RETURNS (bool): Whether a linear map from F to P follows the character CNN."""
        return self.char_cnn is not None and self.char_cnn.projects_to(self.projection_width)

    @property
    def output_width(self) -> int:
        """RETURNS (int): D, the width of a vector of all directions."""
        return self.n_directions * self.projection_width

    def to_dict(self) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): Plain JSON types, the inverse of `from_dict`."""
        record = asdict(self)
        for block in (record, record["char_cnn"] or {}):
            for name in [name for name, default in OMITTED.items() if name in block and block[name] == default]:
                del block[name]
        if self.encoder == "transformer":
            for name in LSTM_SETTINGS:
                del record[name]
        if self.char_cnn is not None:
            record["char_cnn"]["filters"] = [list(pair) for pair in self.char_cnn.filters]
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "BiLMConfig":
        """record (Mapping[str, Any]): From `to_dict`; omitted settings have their default.
        RAISES (ValueError): EL001 for unknown settings, EL002 for invalid values.
        """
        refuse_unknown(cls, record, "the biLM config")
        settings, problems = fit_types(cls, record)
        if problems:
            raise ValueError(Errors.EL002.format(block="biLM config", problems="; ".join(problems)))
        if isinstance(settings.get("char_cnn"), Mapping):
            try:
                settings["char_cnn"] = CharCNNConfig.from_dict(settings["char_cnn"])
            except ValueError as error:
                # Continue with a valid block, to find problems in the other settings.
                problems, settings["char_cnn"] = [str(error)], CharCNNConfig()
        if isinstance(settings.get("transformer"), Mapping):
            settings["transformer"] = TransformerConfig(**settings["transformer"])
        try:
            config = cls(**settings)
        except ValueError as error:
            raise ValueError(" ".join([*problems, str(error)])) from error
        if problems:
            raise ValueError(problems[0])
        return config

    def _problems(self) -> List[str]:
        has_one_input = (self.char_cnn is None) != (self.n_words is None)
        checks = [
            (has_one_input, "exactly one of char_cnn and n_words should be set"),
            (self.n_words is None or self.n_words >= 1, f"n_words is {self.n_words}, should be 1 or more"),
            (self.n_layers >= 1, f"n_layers is {self.n_layers}, should be 1 or more"),
            (self.directions in DIRECTIONS, f"directions is '{self.directions}', should be one of {DIRECTIONS}"),
            (self.encoder in ENCODERS, f"encoder is '{self.encoder}', should be one of {ENCODERS}"),
        ]
        own = self._transformer_problems() if self.encoder == "transformer" else self._lstm_problems()
        return [text for is_fine, text in checks if not is_fine] + own

    def _lstm_problems(self) -> List[str]:
        checks = [
            (self.cell_width >= 1, f"cell_width is {self.cell_width}, should be 1 or more"),
            (
                1 <= self.projection_width <= self.cell_width,
                f"projection_width is {self.projection_width}, should be 1 to cell_width ({self.cell_width})",
            ),
            (self.cell_clip is None or self.cell_clip > 0, f"cell_clip is {self.cell_clip}, should be above 0 or null"),
            (
                self.projection_clip is None or self.projection_clip > 0,
                f"projection_clip is {self.projection_clip}, should be above 0 or null",
            ),
            (
                not (self.has_skip and self.highway_between),
                "has_skip should be false if highway_between is true, since the gate replaces the sum",
            ),
            (self.transformer is None, "transformer should be null, since the encoder is not 'transformer'"),
        ]
        return [text for is_fine, text in checks if not is_fine]

    def _transformer_problems(self) -> List[str]:
        defaults = {item.name: item.default for item in fields(self)}
        is_default = {name: getattr(self, name) == defaults[name] for name in LSTM_SETTINGS}
        return transformer_problems(self.transformer, self.projection_width, is_default)
