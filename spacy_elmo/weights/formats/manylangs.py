"""Models of ELMoForManyLangs (Che et al. 2018), as its training writes them and as they were published in 44 languages.

A folder or zip has `config.json`, which names the file of the architecture; `char.dic` and `word.dic` with the symbols;
`token_embedder.pkl` and `encoder.pkl` with the tensors, written by `torch.save`.
"""

from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ...bilm.config import BiLMConfig, SettingsReader, TokenEmbedderConfig
from ...inference.bilm import BiLM
from ...settings import check_record, list_problems
from ...text.words import REQUIRED_CHARACTERS, REQUIRED_WORDS, Lexicon
from ...util import DIRECTIONS, MAX_SHOWN, listed, shorten
from ..archive import CONFIG_NAME, File, Listing, ModelFiles, only_model, read_json
from ..meta import FORMAT_KEY
from ..tensor_map import Dataset, TensorSlice, find_mismatches, load_network, raise_mismatches, whole
from .allennlp_names import cell_datasets, filter_datasets, highway_datasets
from .state_dict import read_state_dict

ENCODER_NAME, EMBEDDER_NAME = "encoder.pkl", "token_embedder.pkl"
MARKS = (ENCODER_NAME, EMBEDDER_NAME)
INVALID_ARCHITECTURE = (
    "The architecture '{path}' of an ELMoForManyLangs model is invalid: {problems}. Use the file that came with the"
    " model, as a rule cnn_50_100_512_4096_sample.json."
)

CHARACTERS_NAME, WORDS_NAME = "char.dic", "word.dic"
BLANK = "\u3000"  # what a line without a visible symbol means
OURS = "token_embedder."  # prefix in our state dict
MAX_DIGITS = 10
# The architecture of the published models, which is a file of the original program and not of every download.
SAMPLE_NAMES = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
SAMPLE_CONFIG: Dict[str, Any] = {
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
BLOCKS = {"encoder", "token_embedder"}
EMBEDDERS, ENCODERS = ("cnn", "lstm"), ("elmo", "lstm")
CLIPS = {"cell_clip": "cell_clip", "proj_clip": "projection_clip"}


def detect_manylangs(listing: Listing) -> Optional[ModelFiles]:
    """Find a folder or a zip, or one of the two files with weights. ValueError for a zip with several biLMs."""
    if listing.kind == "tar" or (listing.file is not None and listing.file.name not in MARKS):
        return None
    models: Dict[str, ModelFiles] = {}
    for root, files in listing.find_model_folders(MARKS.__contains__).items():
        if listing.kind != "zip":  # its architecture may be in a folder in it
            files = listing.deep_files
        weights = next(files[name] for name in MARKS if name in files)
        models[root] = ModelFiles(str(listing.where), weights, files)
    return only_model(listing.path, models)


def read_symbols(file: File, needed: Sequence[str]) -> Tuple[Optional[str], ...]:
    """Symbols by id; None for blank symbols that a later line replaces. ValueError with all problems, also for symbols
    that are needed and missing, EL020 for a file that is missing.
    """
    lines = file.read_text().split("\n")
    lines = lines[:-1] if not lines[-1].strip() else lines  # only a line feed ends a line
    ids: Dict[str, int] = {}
    symbols: Dict[int, str] = {}
    problems: List[str] = []
    for row, line in enumerate(lines, start=1):
        problem = _add_line(line, len(lines), ids, symbols)
        if problem:
            problems.append(f"line {row:,} {problem}")
        if len(problems) > MAX_SHOWN:
            break
    problems += [f"{symbol} is missing" for symbol in needed if symbol not in ids and len(problems) <= MAX_SHOWN]
    if problems:
        raise ValueError(
            f"'{file}' cannot be used as a table of symbols, one SYMBOL<TAB>ID per line in UTF-8, {len(problems)} "
            f"problem(s):{listed(problems)}\nUse the file that came with the model."
        )
    return tuple(symbols[i] if ids[symbols[i]] == i else None for i in range(len(lines)))


def _add_line(line: str, n_lines: int, ids: Dict[str, int], symbols: Dict[int, str]) -> str:
    """The problem of a line, empty if there is none."""
    symbol, _, text = line.strip().rpartition("\t")
    symbol = symbol or BLANK
    if not text.isdecimal() or len(text) > MAX_DIGITS or int(text) >= n_lines:
        return f"has the id {text[:40]!r}, should be a number from 0 to {n_lines - 1:,}, one per line"
    symbol_id = int(text)
    if symbol_id in symbols:
        return f"has the id {symbol_id:,} of {symbols[symbol_id][:40]!r} again"
    if symbol in ids and symbol != BLANK:
        return f"has {symbol[:40]!r} again"
    ids[symbol] = symbol_id
    symbols[symbol_id] = symbol
    return ""


def read_architecture(files: ModelFiles) -> Tuple[Any, str]:
    """Read the architecture that `config.json` names, and its place: in the folder, else of the same name directly in
    it, else one of the two that the original program has, else the only other JSON with both blocks. Nothing outside is
    read.

    RAISES (ValueError): If it is not found, EL022 for files that are not JSON.
    """
    config_file = files.by_name.get(CONFIG_NAME)
    record = {} if config_file is None else read_json(config_file)
    named = record.get("config_path") if isinstance(record, Mapping) else None
    path = named.replace("\\", "/") if isinstance(named, str) else ""
    last = path.rsplit("/", 1)[-1]
    for name in (path, last):
        file = files.by_name.get(str(PurePosixPath(name))) if name and name != CONFIG_NAME else None
        if file is not None:
            return read_json(file), str(file)
    if last in SAMPLE_NAMES:
        return SAMPLE_CONFIG, last
    names = [name for name in files.by_name if name.endswith(".json") and "/" not in name and name != CONFIG_NAME]
    candidates = [(read_json(files.by_name[name]), str(files.by_name[name])) for name in sorted(names)[:8]]
    architectures = [pair for pair in candidates if isinstance(pair[0], dict) and BLOCKS <= set(pair[0])]
    if len(architectures) == 1:
        return architectures[0]
    problem = f"config_path in config.json is {shorten(repr(named), 80)}, and there is no such file in the folder"
    raise ValueError(INVALID_ARCHITECTURE.format(path=files.where, problems=problem))


def read_sizes(record: Any, where: str) -> Tuple[Dict[str, Any], Dict[str, str]]:
    """The settings of a `BiLMConfig` without the rows of the tables, and their names in the file, from an architecture
    with the blocks `encoder` and `token_embedder`. ValueError with all missing settings and unknown names.
    """
    reader = SettingsReader(record if isinstance(record, Mapping) else {})
    for block in sorted(BLOCKS):
        if reader.options.get(block) == {}:
            reader.add(block, "is empty")
    settings: Dict[str, Any] = {}
    if reader.take("encoder", Dict[str, Any]):
        kind = _read_name(reader, "encoder", ENCODERS)
        sizes = {"cell_width": ("encoder.dim", ...), "projection_width": ("encoder.projection_dim", ...)}
        settings = reader.read({**sizes, "n_layers": ("encoder.n_layers", ...)})
        if kind == "lstm":
            settings.update(encoder="bilstm", encoder_depth=settings["n_layers"], n_layers=1, has_skip=False)
            settings.update(cell_clip=None, projection_clip=None)
        else:
            for name in CLIPS:
                if name not in record["encoder"]:
                    reader.add(f"encoder.{name}", "is missing")
            settings.update(reader.read({ours: (f"encoder.{name}", None) for name, ours in CLIPS.items()}))
    if reader.take("token_embedder", Dict[str, Any]):
        base = "token_embedder."
        kind = _read_name(reader, "token_embedder", EMBEDDERS)
        words = reader.read({"character_width": (f"{base}char_dim", ...), "word_width": (f"{base}word_dim", ...)})
        cnn = {name: (base + name, ...) for name in ("filters", "activation", "n_highway")}
        length = {"max_characters": (f"{base}max_characters_per_token", ...)}
        words.update(reader.read(length) if kind == "cnn" else {"max_characters": None})
        words.update(reader.read(cnn) if kind == "cnn" and words["character_width"] else {"n_highway": 0})
        settings["token_embedder"] = {"kind": kind, **words}
    if reader.problems:
        raise ValueError(INVALID_ARCHITECTURE.format(path=where, problems="; ".join(reader.describe())))
    return settings, reader.names


def make_config(
    record: Mapping[str, Any], names: Mapping[str, str], where: str, n_characters: int, n_words: int
) -> BiLMConfig:
    """The config for the sizes from `read_sizes` and the rows of both tables, 0 where `char_dim` or `word_dim` is 0.
    ValueError for sizes that no biLM can have.
    """
    words = {**record["token_embedder"], "n_characters": n_characters, "n_words": n_words}
    is_elmo = "encoder" not in record
    config, problems = check_record(BiLMConfig, {**record, "token_embedder": words, "always_project": is_elmo})
    if config is None:
        raise ValueError(INVALID_ARCHITECTURE.format(path=where, problems=shorten(list_problems(problems, names))))
    return replace(config, always_project=is_elmo and config.projection_width >= config.cell_width)


def _read_name(reader: SettingsReader, block: str, known: Tuple[str, ...]) -> str:
    value = reader.take(f"{block}.name", str)
    name = str(value or "").lower()
    if value is not None and name not in known:
        reader.reject(f"{block}.name", name, f"one of: {', '.join(known)}")
    return name


def _embedder_datasets(config: BiLMConfig) -> List[Dataset]:
    """The tensors of token_embedder.pkl, for a config with a token embedder."""
    embedder: TokenEmbedderConfig = config.token_embedder  # type: ignore[assignment]  # not None for these models
    characters = "char_cnn" if embedder.kind == "cnn" else "char_lstm"
    tables = (
        ("word_emb_layer", embedder.n_words, embedder.word_width, "word_embedding"),
        ("char_emb_layer", embedder.n_characters, embedder.character_width, f"{characters}.embedding"),
    )
    datasets = [
        # Our ids are larger by one, and our row 0 is zero.
        Dataset(f"{name}.embedding.weight", (n, width), (TensorSlice(OURS + ours, state_index=(slice(1, None),)),))
        for name, n, width, ours in tables
        if n
    ]
    if embedder.n_characters:
        width = embedder.character_width
        datasets += (
            _token_embedder_datasets(embedder)
            if embedder.kind == "cnn"
            else _torch_lstm_datasets("char_lstm.", f"{OURS}char_lstm.lstm.", [width], width)
        )
    width = config.projection_width
    datasets.append(whole("projection.weight", (width, embedder.feature_width), f"{OURS}projection.weight"))
    return [*datasets, whole("projection.bias", (width,), f"{OURS}projection.bias")]


def _encoder_datasets(config: BiLMConfig) -> List[Dataset]:
    width, cell_width = config.projection_width, config.cell_width
    if config.encoder == "bilstm":
        inputs = [width, *[2 * cell_width] * (config.encoder_depth - 1)]
        return [
            *_torch_lstm_datasets("encoder.", "encoder.lstm.", inputs, cell_width),
            whole("projection.weight", (width, cell_width), "encoder.projection.weight"),
            whole("projection.bias", (width,), "encoder.projection.bias"),
        ]
    return [
        dataset
        for layer in range(config.n_layers)
        for direction in range(2)
        for dataset in cell_datasets(
            f"{DIRECTIONS[direction]}_layer_{layer}.",
            f"encoder.layers.{layer}.",
            direction,
            width,
            cell_width,
        )
    ]


def _token_embedder_datasets(config: TokenEmbedderConfig) -> List[Dataset]:
    datasets = filter_datasets("convolutions.", f"{OURS}char_cnn.filters.", config.filters, config.character_width)
    n = sum(n for _, n in config.filters)
    for k in range(config.n_highway):
        datasets += highway_datasets(f"highways._layers.{k}.", f"{OURS}char_cnn.highways.{k}.", n)
    return datasets


def _torch_lstm_datasets(theirs: str, ours: str, input_widths: List[int], cell_width: int) -> List[Dataset]:
    """Tensors of `torch.nn.LSTM`, whose names and values we keep."""
    datasets = []
    for layer, input_width in enumerate(input_widths):
        for suffix in ("", "_reverse"):
            for name, shape in (
                ("weight_ih", (4 * cell_width, input_width)),
                ("weight_hh", (4 * cell_width, cell_width)),
                ("bias_ih", (4 * cell_width,)),
                ("bias_hh", (4 * cell_width,)),
            ):
                full = f"{name}_l{layer}{suffix}"
                datasets.append(whole(theirs + full, shape, ours + full))
    return datasets


def read_manylangs(files: ModelFiles) -> BiLM:
    """The biLM, float32, with its lexicon, without a softmax. ValueError with all problems of all files."""
    names_needed = [CONFIG_NAME, EMBEDDER_NAME, ENCODER_NAME]
    tables = (
        (CHARACTERS_NAME, "character_width", REQUIRED_CHARACTERS),
        (WORDS_NAME, "word_width", REQUIRED_WORDS),
    )
    record: Dict[str, Any] = {}
    names: Dict[str, str] = {}
    where = ""
    if CONFIG_NAME in files.by_name:
        architecture, where = read_architecture(files)
        record, names = read_sizes(architecture, where)
        names_needed += [name for name, width_name, _ in tables if record["token_embedder"][width_name]]
    present = {name: files.by_name[name] for name in names_needed if name in files.by_name}
    if len(present) < len(names_needed):
        missing = ", ".join(name for name in names_needed if name not in present)
        raise ValueError(
            f"The ELMoForManyLangs model '{files.where}' is not complete: {missing} missing. Unpack the download "
            "again, with all of its files in one folder, or pass the zip itself."
        )
    characters, words = (read_symbols(present[name], needed) if name in present else () for name, _, needed in tables)
    config = make_config(record, names, where, len(characters), len(words))
    # Both files have a tensor `projection.weight`: names begin with the file's.
    tables_of = {EMBEDDER_NAME: _embedder_datasets(config), ENCODER_NAME: _encoder_datasets(config)}
    table = [replace(dataset, name=f"{file}/{dataset.name}") for file in tables_of for dataset in tables_of[file]]
    arrays = {f"{file}/{name}": array for file in tables_of for name, array in read_state_dict(present[file]).items()}
    problems = find_mismatches({dataset.name: dataset.shape for dataset in table}, arrays)
    raise_mismatches(problems, files.where, where)
    network = load_network(config, table, arrays)
    return BiLM(network, lexicon=Lexicon(characters, words), meta={FORMAT_KEY: "manylangs"})
