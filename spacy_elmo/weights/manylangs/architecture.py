"""The architecture of an ELMoForManyLangs model: find its JSON, and convert it to a config of ours."""

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ...bilm.config import BiLMConfig, TokenEmbedderConfig
from ...errors import Errors
from ..limits import find_excess, shorten
from ..sources import read_json
from .files import CONFIG_NAME, ManyLangsFiles

# The architecture of the published models, which is a file of the original program and not of every download.
SAMPLE_NAMES = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
SAMPLE: Dict[str, Any] = {
    "encoder": {"name": "elmo", "projection_dim": 512, "cell_clip": 3, "proj_clip": 3, "dim": 4096, "n_layers": 2},
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}
NAMES = ("cnn", "lstm"), ("elmo", "lstm")


class Architecture:
    """The checked architecture.

    record (Mapping[str, Any]): With the blocks `encoder` and `token_embedder`.
    where (str): Its source, for messages.
    RAISES (ValueError): EL304 with all missing settings and wrong types.
    """

    def __init__(self, record: Any, where: str) -> None:
        self.where = where
        problems: List[str] = []
        encoder, embedder = (_block(record, name, problems) for name in ("encoder", "token_embedder"))
        self.embedder_name = _name(embedder, "token_embedder", NAMES[0], problems)
        self.encoder_name = _name(encoder, "encoder", NAMES[1], problems)
        self.sizes = _sizes(encoder, "encoder", ("projection_dim", "dim", "n_layers"), 1, problems)
        self.sizes.update(_sizes(embedder, "token_embedder", ("char_dim", "word_dim"), 0, problems))
        self.clips: Dict[str, Optional[float]] = {}
        if self.encoder_name == "elmo":
            self.clips = {name: _clip(encoder, name, problems) for name in ("cell_clip", "proj_clip")}
        if self.embedder_name == "cnn":
            self.sizes.update(_sizes(embedder, "token_embedder", ("max_characters_per_token",), 2, problems))
        self.cnn: Dict[str, Any] = {}
        if self.embedder_name == "cnn" and self.sizes.get("char_dim"):
            self.sizes.update(_sizes(embedder, "token_embedder", ("n_highway",), 0, problems))
            self.cnn = {"filters": embedder.get("filters"), "activation": embedder.get("activation")}
        if problems:
            raise ValueError(Errors.EL304.format(path=where, problems="; ".join(problems)))

    def config(self, n_characters: int, n_words: int) -> BiLMConfig:
        """n_characters (int), n_words (int): Rows of the tables, 0 where `char_dim` or `word_dim` is 0.
        RETURNS (BiLMConfig): The config.
        RAISES (ValueError): EL304 for sizes that no biLM can have.
        """
        sizes = self.sizes
        embedder: Dict[str, Any] = {
            "kind": self.embedder_name,
            "n_characters": n_characters,
            "character_width": sizes["char_dim"],
            "n_words": n_words,
            "word_width": sizes["word_dim"],
            "n_highway": sizes.get("n_highway", 0),
            "max_characters": sizes.get("max_characters_per_token"),
            **self.cnn,
        }
        try:
            config = BiLMConfig(token_embedder=TokenEmbedderConfig.from_dict(embedder), **self._encoder_settings())
            problems = find_excess(config)
        except ValueError as error:
            problems = [str(error)]
        if problems:
            raise ValueError(Errors.EL304.format(path=self.where, problems=shorten("; ".join(problems))))
        return config

    def _encoder_settings(self) -> Dict[str, Any]:
        sizes = self.sizes
        widths = {"cell_width": sizes["dim"], "projection_width": sizes["projection_dim"]}
        if self.encoder_name == "lstm":
            plain = {"cell_clip": None, "projection_clip": None, "has_skip": False}
            return {**widths, **plain, "encoder": "bilstm", "n_layers": 1, "encoder_depth": sizes["n_layers"]}
        return {
            **widths,
            "n_layers": sizes["n_layers"],
            "cell_clip": self.clips["cell_clip"],
            "projection_clip": self.clips["proj_clip"],
            "always_project": sizes["projection_dim"] >= sizes["dim"],
        }


def read_architecture(files: ManyLangsFiles) -> Architecture:
    """Read the architecture that `config.json` names: in the folder, else of the same name directly in it, else one of
    the two that the original program has, else the only other JSON with both blocks. Nothing outside is read.

    files (ManyLangsFiles): The files of the model.
    RETURNS (Architecture): The architecture.
    RAISES (ValueError): EL304 if it is not found or invalid, EL022 or EL036 for files that are no JSON.
    """
    source = files.find(CONFIG_NAME)
    record = {} if source is None else read_json(source)
    named = record.get("config_path") if isinstance(record, Mapping) else None
    path = named.replace("\\", "/") if isinstance(named, str) else ""
    last = path.rsplit("/", 1)[-1]
    for name in (path, last):
        found = files.find(name) if name and name != CONFIG_NAME else None
        if found is not None:
            return Architecture(read_json(found), str(found))
    if last in SAMPLE_NAMES:
        return Architecture(SAMPLE, last)
    others = list(_others(files))
    if len(others) == 1:
        return Architecture(*others[0])
    problem = f"config_path in config.json is {shorten(repr(named), 80)}, and there is no such file in the folder"
    raise ValueError(Errors.EL304.format(path=files.path, problems=problem))


def _others(files: ManyLangsFiles) -> List[Tuple[Any, str]]:
    """JSON files directly in the folder that look like an architecture."""
    names = (name for name in sorted(files.top_names()) if name.endswith(".json") and name != CONFIG_NAME)
    sources = [source for source in map(files.find, names) if source is not None]
    records = [(read_json(source), str(source)) for source in sources[:8]]
    return [
        (record, where)
        for record, where in records
        if isinstance(record, Mapping) and {"encoder", "token_embedder"} <= set(record)
    ]


def _block(record: Any, name: str, problems: List[str]) -> Mapping[str, Any]:
    block = record.get(name) if isinstance(record, Mapping) else None
    if not isinstance(block, Mapping) or not block:
        problems.append(f"the block {name} is missing, empty or not an object")
        return {}
    return block


def _name(block: Mapping[str, Any], where: str, known: Tuple[str, ...], problems: List[str]) -> str:
    name = block.get("name")
    if isinstance(name, str) and name.lower() in known:
        return name.lower()
    if block:
        problems.append(f"{where}.name is {shorten(repr(name), 40)}, should be one of {known}")
    return ""


def _sizes(
    block: Mapping[str, Any], where: str, names: Tuple[str, ...], least: int, problems: List[str]
) -> Dict[str, int]:
    found: Dict[str, int] = {}
    for name in names if block else ():
        value = block.get(name)
        if type(value) is int and value >= least:
            found[name] = value
        else:
            problems.append(f"{where}.{name} is {shorten(repr(value), 40)}, should be an integer of {least} or more")
    return found


def _clip(block: Mapping[str, Any], name: str, problems: List[str]) -> Optional[float]:
    """0 and null mean no clip."""
    value = block.get(name, "missing")
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1e300
    if value is not None and not is_number:
        problems.append(f"encoder.{name} is {shorten(repr(value), 40)}, should be a number of 0 or more, or null")
        return None
    return float(value) if value else None
