"""The config of a biLM: sizes and options, validated on construction, within limits far above existing biLMs.

Peters et al. (2018), sec. 3.1 and 3.4; `SettingsReader` takes settings by the names of a foreign file.
"""

from dataclasses import asdict, fields, replace
from typing import Annotated, Any, Dict, List, Literal, Mapping, Optional, Tuple, Union

from pydantic import Field
from pydantic.dataclasses import dataclass

from ..settings import KNOWN_NAMES, Count, Flag, Positive, Problem, Whole, check_record, read_block, require
from ..util import shorten

Activation = Literal["relu", "tanh"]
UTF8_CHARACTERS = 261  # of the codec "utf8", see `text/words.py`; those of "lexicon" are in the `Lexicon` of the model
LSTM_SETTINGS = ("cell_width", "cell_clip", "projection_clip", "has_skip", "highway_between", "always_project")

MAX_ABSOLUTE = 1e18  # the product of two such numbers is still finite in float32
MAX_LAYERS = 1000  # layers of the encoder, highway layers, filter sizes
MAX_WIDTH = 2**20
MAX_WORD_CHARACTERS = 1000  # ids per word, of 8 bytes each, for thousands of words at once
MAX_TABLE_WORDS = 2**31
MAX_CUTOFFS = 100  # clusters of an adaptive softmax

LayerCount = Annotated[Whole, Field(ge=1, le=MAX_LAYERS)]
HighwayCount = Annotated[Whole, Field(ge=0, le=MAX_LAYERS)]
Width = Annotated[Whole, Field(ge=1, le=MAX_WIDTH)]
WidthOrZero = Annotated[Whole, Field(ge=0, le=MAX_WIDTH)]
Filters = Tuple[Tuple[Count, Count], ...]
Clip = Annotated[Positive, Field(le=MAX_ABSOLUTE)]
Checks = List[Tuple[bool, Union[str, Problem]]]


@dataclass(frozen=True, config=KNOWN_NAMES)
class CharCNNConfig:
    """The config of the character CNN, which maps the bytes of a word to a vector (Kim et al. 2016).

    embedding_width (int): Width E of a character vector.
    filters (Tuple[Tuple[int, int], ...]): Pairs of window width (characters) and number of filters.
    activation (str): "relu" or "tanh", after the maximum over positions.
    n_highway (int): Highway layers over the pooled filters, 0 for none.
    max_characters (int): C, ids per word, including begin and end of word.
    always_project (bool): A linear map from F to P follows even if F equals P (AllenNLP; bilm-tf omits it).
    codec (str): Character codec: "utf8", bytes between begin-of-word and end-of-word ids; "lexicon" within a
        `TokenEmbedderConfig`.
    n_characters (int): Characters of the codec; id 0 is the mask, so the embedding has one more row.
    projection (str): Position of the linear map from F to P: "after_highway", or "after_cnn" for highways of width P.
    has_layer_norm (bool): Normalize the vector of a word (Ba et al. 2016), as in the transformer of AllenNLP.
    """

    embedding_width: Width = 16
    filters: Filters = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    activation: Activation = "relu"
    n_highway: HighwayCount = 2
    max_characters: Annotated[Whole, Field(ge=4, le=MAX_WORD_CHARACTERS)] = 50
    always_project: Flag = False
    codec: Literal["utf8", "lexicon"] = "utf8"
    n_characters: Width = UTF8_CHARACTERS
    projection: Literal["after_highway", "after_cnn"] = "after_highway"
    has_layer_norm: Flag = False

    def __post_init__(self) -> None:
        is_fine = self.codec != "utf8" or self.n_characters == UTF8_CHARACTERS
        problem = Problem(("n_characters",), f"is {self.n_characters}, should be {UTF8_CHARACTERS}")
        require((is_fine, problem), *_filter_checks(self.filters, self.max_characters))

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


@dataclass(frozen=True, config=KNOWN_NAMES)
class TokenEmbedderConfig:
    """The config of the token embedder of ELMoForManyLangs (Che et al. 2018): a word embedding and the characters of
    the word, by a character CNN or an LSTM, concatenated and projected. The symbols of both tables are in a `Lexicon`.

    kind (str): "cnn", or "lstm": the last states of an LSTM over the characters, in both directions.
    n_characters (int): Rows of the character table, 0 for words only.
    character_width (int): Width E of a character vector, 0 for words only.
    n_words (int): Rows of the word table, 0 for characters only.
    word_width (int): Width of a vector of the word table, 0 for characters only.
    filters (Tuple[Tuple[int, int], ...]), activation (str), n_highway (int): Settings of the character CNN, see
        `CharCNNConfig`.
    max_characters (Optional[int]): Words are truncated to two characters less, for the word table, too; None: never.
    """

    kind: Literal["cnn", "lstm"] = "cnn"
    n_characters: WidthOrZero = 0
    character_width: WidthOrZero = 0
    n_words: Annotated[Whole, Field(ge=0, le=MAX_TABLE_WORDS)] = 0
    word_width: WidthOrZero = 0
    filters: Filters = ()
    activation: Activation = "relu"
    n_highway: HighwayCount = 2
    max_characters: Optional[Annotated[Whole, Field(ge=2, le=MAX_WORD_CHARACTERS)]] = 50

    def __post_init__(self) -> None:
        n = self.max_characters or 0
        checks = _filter_checks(self.filters, n) if self.kind == "cnn" and self.n_characters else []
        for first, second in (("n_characters", "character_width"), ("n_words", "word_width")):
            is_fine = bool(getattr(self, first)) == bool(getattr(self, second))
            checks.append((is_fine, Problem((first,), "should be 0 if {} is, and only then", (second,))))
        has_input = bool(self.n_characters or self.n_words)
        checks.append((has_input, "it has neither characters nor words, should have one of them"))
        if self.kind == "cnn" and self.n_characters:
            text = f"is {self.max_characters}, should be 4 or more for a character CNN"
            checks.append((n >= 4, Problem(("max_characters",), text)))
        require(*checks)

    @property
    def char_cnn(self) -> Optional[CharCNNConfig]:
        """RETURNS (Optional[CharCNNConfig]): The character CNN, None without characters or with another kind."""
        if self.kind != "cnn" or not self.n_characters:
            return None
        return CharCNNConfig(
            embedding_width=self.character_width,
            filters=self.filters,
            activation=self.activation,
            n_highway=self.n_highway,
            max_characters=self.max_characters or 0,
            codec="lexicon",
            n_characters=self.n_characters,
        )

    @property
    def feature_width(self) -> int:
        """RETURNS (int): Width of the concatenated word vector and characters, before the projection."""
        characters = sum(n for _, n in self.filters) if self.kind == "cnn" else 2 * self.character_width
        return self.word_width + (characters if self.n_characters else 0)


@dataclass(frozen=True, config=KNOWN_NAMES)
class TransformerConfig:
    """Sizes of a transformer (Vaswani et al. 2017; Peters et al. 2018b, sec. 2.2). Number of layers and width are those
    of the biLM: `n_layers` and `projection_width`.

    feedforward_width (int): Width of the hidden layer of the feed-forward networks.
    n_heads (int): Attention heads; a divisor of `projection_width`.
    max_positions (int): Maximum length of a sequence in tokens, BOS and EOS included.
    """

    feedforward_width: Width = 2048
    n_heads: Width = 8
    max_positions: Annotated[Whole, Field(ge=3, le=MAX_WIDTH)] = 5000


@dataclass(frozen=True, config=KNOWN_NAMES)
class BiLMConfig:
    """The config of a biLM: word input, encoder, directions.

    char_cnn (Optional[CharCNNConfig]): Character input; None for other input.
    n_words (Optional[int]): Rows of the word embedding, for word input.
    n_layers (int): L, layers of the encoder per direction.
    cell_width (int): H, width of the memory cell of an LSTM.
    projection_width (int): P, width of one direction's output; vectors have 2P. Equal to `cell_width`: no projection.
    cell_clip (Optional[float]): Maximum absolute value of the memory cell, None for no clip.
    projection_clip (Optional[float]): Maximum absolute value of a projected output, None for no clip.
    has_skip (bool): Skip connections: from the second layer on, the input is added to the output.
    highway_between (bool): Highways: from the second layer on, a gate mixes input and output (Srivastava et al. 2015).
    directions (str): "both", or "forward" for a plain language model.
    encoder (str): The encoder above the words: "lstm"; "bilstm", a bidirectional LSTM with a projection of its last
        layer, each of whose layers reads both directions of the layer below; or "transformer" (Peters et al. 2018b),
        for which cell_width, clips, has_skip and highway_between are left out.
    token_embedder (Optional[TokenEmbedderConfig]): Characters and words as input, with tables of the model.
    always_project (bool): A linear map from H to P follows the cell even if P is not below H (ELMoForManyLangs).
    encoder_depth (int): Layers of the encoder "bilstm", of which only the last is a layer of the biLM (n_layers = 1).
    transformer (Optional[TransformerConfig]): Sizes of a transformer; None for an LSTM.
    """

    char_cnn: Optional[CharCNNConfig] = None
    n_words: Optional[Annotated[Whole, Field(ge=1, le=MAX_TABLE_WORDS)]] = None
    n_layers: LayerCount = 2
    cell_width: Width = 4096
    projection_width: Width = 512
    cell_clip: Optional[Clip] = 3.0
    projection_clip: Optional[Clip] = 3.0
    has_skip: Flag = True
    directions: Literal["both", "forward"] = "both"
    highway_between: Flag = False
    encoder: Literal["lstm", "bilstm", "transformer"] = "lstm"  # see `bilm/network.py`
    token_embedder: Optional[TokenEmbedderConfig] = None
    always_project: Flag = False
    encoder_depth: LayerCount = 1
    transformer: Optional[TransformerConfig] = None

    def __post_init__(self) -> None:
        codec = self.char_cnn and self.char_cnn.codec
        require(
            (codec != "lexicon", Problem(("char_cnn", "codec"), "is 'lexicon', which only a token_embedder has")),
            self._check_input(),
            *(self._check_transformer() if self.encoder == "transformer" else self._check_lstm()),
        )

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
        return self.always_project or self.projection_width < self.cell_width

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
        if self.encoder == "transformer":
            for name in LSTM_SETTINGS:
                record.pop(name, None)
        if self.char_cnn is not None:
            record["char_cnn"]["filters"] = [list(pair) for pair in self.char_cnn.filters]
        if self.token_embedder is not None:
            record["token_embedder"]["filters"] = [list(pair) for pair in self.token_embedder.filters]
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "BiLMConfig":
        """record (Mapping[str, Any]): From `to_dict`; omitted settings have their default.
        RAISES (ValueError): EL001 for unknown settings; for invalid values, with all problems.
        """
        return read_block(cls, record, "biLM config")

    def _check_input(self) -> Tuple[bool, str]:
        n_inputs = sum(block is not None for block in (self.char_cnn, self.n_words, self.token_embedder))
        return n_inputs == 1, "exactly one of char_cnn, n_words and token_embedder should be set"

    def _check_lstm(self) -> Checks:
        width, limit, is_bilstm = self.projection_width, self.cell_width, self.encoder == "bilstm"
        allows_width = width <= limit or self.always_project or is_bilstm
        limits = Problem(("projection_width",), f"is {width}, should be 1 to {{}} ({limit})", ("cell_width",))
        text = "should be false if {} is true, since the gate replaces the sum"
        bilstm_values = {"n_layers": 1, "directions": "both", "highway_between": False}
        expected_values = bilstm_values if is_bilstm else {"encoder_depth": 1}
        return [
            (allows_width, limits),
            (not (self.has_skip and self.highway_between), Problem(("has_skip",), text, ("highway_between",))),
            *(_equals(name, getattr(self, name), value, self.encoder) for name, value in expected_values.items()),
            (self.transformer is None, Problem(("transformer",), "should be null, since the encoder has none")),
        ]

    def _check_transformer(self) -> Checks:
        defaults = {item.name: item.default for item in fields(self)}
        text = "should be left out: it is a setting of encoder 'lstm'"
        width, is_even = self.projection_width, f"is {self.projection_width}, should be an even number of 2 or more"
        sizes = "is null, should be a block with the sizes of encoder 'transformer'"
        n_heads = 1 if self.transformer is None else self.transformer.n_heads
        divisor = f"is {n_heads}, should divide {{}} ({width})"
        return [
            *(
                (getattr(self, name) == defaults[name], Problem((name,), text))
                for name in (*LSTM_SETTINGS, "encoder_depth")
            ),
            (width % 2 == 0, Problem(("projection_width",), is_even)),
            (self.transformer is not None, Problem(("transformer",), sizes)),
            (width % n_heads == 0, Problem(("transformer", "n_heads"), divisor, ("projection_width",))),
        ]


def _equals(name: str, value: Any, expected: Any, encoder: str) -> Tuple[bool, Problem]:
    """The check that a setting has the only value that an encoder allows."""
    actual_text, expected_text = (str(x).lower() if isinstance(x, bool) else repr(x) for x in (value, expected))
    return value == expected, Problem((name,), f"is {actual_text}, should be {expected_text} for '{encoder}'")


def _filter_checks(filters: Filters, max_characters: int) -> Checks:
    n_filters, most = sum(n for _, n in filters), f"should have at most {MAX_WIDTH:,}"
    counts = f"has {len(filters):,} sizes, should have 1 to {MAX_LAYERS:,}"
    checks: Checks = [(1 <= len(filters) <= MAX_LAYERS, Problem(("filters",), counts))]
    if n_filters > MAX_WIDTH:
        total = f"has {shorten(str(n_filters), 40)} filters in all, {most}"
        checks.append((False, Problem(("filters",), total)))
    wide = [(i, shorten(f"[{width}, {n}]", 40)) for i, (width, n) in enumerate(filters) if width > max_characters]
    text = f"should be 1 to {max_characters} characters wide"
    return [*checks, *((False, Problem(("filters", i), f"is {pair}, {text}")) for i, pair in wide)]


class SettingsReader:
    """Reads settings from nested options, and collects problems: missing and invalid settings.

    options (Mapping[str, Any]): The parsed JSON.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self.problems: List[Problem] = []
        self.names: Dict[str, str] = {}

    def read(self, table: Mapping[str, Tuple[str, Any]]) -> Dict[str, Any]:
        """table (Mapping[str, Tuple[str, Any]]): For each of our settings its dotted name in the file and its default,
            ... for none.
        RETURNS (Dict[str, Any]): The values by our names, a clip of 0 as null; their types are not checked.
        """
        self.names.update({ours: name for ours, (name, _) in table.items()})
        values = {ours: self.take(name, Any, default) for ours, (name, default) in table.items()}
        no_clips = [
            name
            for name, value in values.items()
            if name.endswith("_clip") and type(value) in (int, float) and not value
        ]
        return {**values, **dict.fromkeys(no_clips)}

    def build(self, record: Mapping[str, Any]) -> Optional[BiLMConfig]:
        """record (Mapping[str, Any]): Settings from `read`, in their blocks, and further settings.
        RETURNS (Optional[BiLMConfig]): The config, None if there are problems.
        """
        config, problems = check_record(BiLMConfig, _without_missing(record) if self.problems else record)
        self.problems += problems
        return None if self.problems else config

    def describe(self) -> List[str]:
        """RETURNS (List[str]): All problems, with the names of settings in the file."""
        return [problem.describe(self.names) for problem in self.problems]

    def has(self, name: str) -> bool:
        """RETURNS (bool): Whether a dotted name has a value other than null."""
        return self._find(name)[1] is not None

    def take(self, name: str, kind: Any, default: Any = ...) -> Any:
        """name (str): Dotted name.
        kind (Any): Its type, see `check_record`.
        default (Any): For a missing value; without it, a missing value is a problem.
        RETURNS (Any): The value, None if it is invalid.
        """
        is_stated, value = self._find(name)
        if value is None and default is not ...:
            return default
        if value is None:
            self.add(name, "is null" if is_stated else "is missing")
            return None
        checked, problems = check_record(kind, value)
        self.problems += [replace(problem, path=(name, *problem.path)) for problem in problems]
        return checked

    def add(self, name: str, text: str) -> None:
        """Add a problem of a setting."""
        self.problems.append(Problem((name,), text))

    def reject(self, name: str, value: Any, expected: str) -> None:
        """Add the problem that a setting should have another value."""
        self.add(name, f"is {shorten(repr(value), 80)}, should be {expected}")

    def _find(self, name: str) -> Tuple[bool, Any]:
        node: Any = self.options
        for key in name.split("."):
            if not isinstance(node, Mapping) or key not in node:
                return False, None
            node = node[key]
        return True, node


def _without_missing(record: Mapping[str, Any]) -> Dict[str, Any]:
    """Settings that are missing are reported already, and have the defaults of our config."""
    inner = {name: _without_missing(value) if isinstance(value, dict) else value for name, value in record.items()}
    return {name: value for name, value in inner.items() if value is not None}
