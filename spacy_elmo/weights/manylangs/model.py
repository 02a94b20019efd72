"""Read models of ELMoForManyLangs (Che et al. 2018) into a `BiLM`."""

from typing import Dict, List, Optional, Sequence, Tuple, cast

from ...bilm.config import BiLMConfig
from ...encoding.facade import BiLM
from ...errors import Errors
from ...text.lexicon import CHARACTERS_NEEDED, WORDS_NEEDED, Lexicon
from ..bilm_tf.layout import state_shapes
from ..limits import listed
from ..parts import build_network
from ..problems import Faults
from ..sources import Source
from ..tensor_map import Array, Dataset, find_misfits, import_arrays
from ..torch_files import read_state_dict
from .architecture import Architecture, read_architecture
from .files import CHARACTERS_NAME, CONFIG_NAME, EMBEDDER_NAME, ENCODER_NAME, WORDS_NAME, ManyLangsFiles
from .layout import embedder_datasets, encoder_datasets
from .symbols import read_symbols

Symbols = Tuple[Optional[str], ...]


def read_manylangs(files: ManyLangsFiles) -> BiLM:
    """files (ManyLangsFiles): Its files.
    RETURNS (BiLM): float32, with its lexicon, without a softmax.
    RAISES (ValueError): EL303 to EL307, EL022, EL036, or EL034 with all problems of several files.
    """
    faults = Faults()
    architecture = faults.attempt(read_architecture, files) if files.find(CONFIG_NAME) else None
    faults.attempt(_refuse_missing, files, architecture)
    characters = _read_table(faults, files, architecture, CHARACTERS_NAME, "char_dim", CHARACTERS_NEEDED)
    words = _read_table(faults, files, architecture, WORDS_NAME, "word_dim", WORDS_NEEDED)
    embedder, encoder = (_read_weights(faults, files.find(name)) for name in (EMBEDDER_NAME, ENCODER_NAME))
    config: Optional[BiLMConfig] = None
    if architecture is not None and characters is not None and words is not None:
        config = faults.attempt(architecture.config, len(characters), len(words))
    if config is not None:
        faults.attempt(_refuse_misfits, files, config, embedder, encoder)
    faults.raise_together(files.path)
    lexicon = Lexicon(characters or (), words or ())
    return _build(cast(BiLMConfig, config), {**(embedder or {}), **(encoder or {})}, lexicon)


def _build(config: BiLMConfig, arrays: Dict[Tuple[str, str], Array], lexicon: Lexicon) -> BiLM:
    table = [*_prefixed(EMBEDDER_NAME, embedder_datasets(config)), *_prefixed(ENCODER_NAME, encoder_datasets(config))]
    named = {_full(file, name): array for (file, name), array in arrays.items()}
    network = build_network(config, import_arrays(table, named, state_shapes(config)))
    return BiLM(network, lexicon=lexicon, meta={"source_format": "manylangs"})


def _read_table(
    faults: Faults,
    files: ManyLangsFiles,
    architecture: Optional[Architecture],
    name: str,
    width_name: str,
    needed: Sequence[str],
) -> Optional[Symbols]:
    """RETURNS (Optional[Symbols]): Empty without this table, None if it cannot be read."""
    if architecture is not None and not architecture.sizes[width_name]:
        return ()
    source = files.find(name)
    return None if source is None else faults.attempt(read_symbols, source, needed)


def _read_weights(faults: Faults, source: Optional[Source]) -> Optional[Dict[Tuple[str, str], Array]]:
    """RETURNS (Optional[Dict[Tuple[str, str], Array]]): By file and name."""
    arrays = None if source is None else faults.attempt(read_state_dict, source)
    if source is None or arrays is None:
        return None
    return {(source.name, name): array for name, array in arrays.items()}


def _refuse_missing(files: ManyLangsFiles, architecture: Optional[Architecture]) -> None:
    wanted = [CONFIG_NAME, EMBEDDER_NAME, ENCODER_NAME]
    if architecture is not None:
        tables = ((CHARACTERS_NAME, "char_dim"), (WORDS_NAME, "word_dim"))
        wanted += [name for name, width_name in tables if architecture.sizes[width_name]]
    missing = [name for name in wanted if files.find(name) is None]
    if missing:
        raise ValueError(Errors.EL306.format(path=files.path, missing=f"{', '.join(missing)} missing"))


def _refuse_misfits(
    files: ManyLangsFiles,
    config: BiLMConfig,
    embedder: Optional[Dict[Tuple[str, str], Array]],
    encoder: Optional[Dict[Tuple[str, str], Array]],
) -> None:
    """Raise one error with all problems of the tensors of both files."""
    problems: List[str] = []
    for file, datasets, arrays in (
        (EMBEDDER_NAME, embedder_datasets(config), embedder),
        (ENCODER_NAME, encoder_datasets(config), encoder),
    ):
        if arrays is not None:
            wanted = {dataset.name: dataset.shape for dataset in datasets}
            found = find_misfits(wanted, {name: array for (_, name), array in arrays.items()})
            problems += [f"{file}: {problem}" for problem in found]
    if problems:
        listing = {"n_problems": len(problems), "problems": listed(problems)}
        raise ValueError(Errors.EL307.format(path=files.path, **listing))


def _prefixed(file: str, datasets: Sequence[Dataset]) -> List[Dataset]:
    return [Dataset(_full(file, dataset.name), dataset.shape, dataset.slices) for dataset in datasets]


def _full(file: str, name: str) -> str:
    """Both files have a tensor `projection.weight`."""
    return f"{file}/{name}"
