"""Read the two files that AllenNLP's modules are made from."""

from pathlib import Path
from typing import List, Optional

from ...bilm.config import BiLMConfig
from ...bilm.model import BiLMNetwork
from ...errors import Errors
from ...inference.bilm import BiLM
from ...weights import load_bilm
from ...weights.bilm_tf import find_other_characters
from ..arguments import ConfigurationError, PathLike, check_file, check_no_url

_MODEL = "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway/elmo_2x4096_512_2048cnn_2xhighway_"
# What AllenNLP downloads if no files are named. Here they are the defaults, too, and an error that says what to do.
DEFAULT_OPTIONS_FILE = _MODEL + "options.json"
DEFAULT_WEIGHT_FILE = _MODEL + "weights.hdf5"


def load_network(options_file: Optional[PathLike], weight_file: Optional[PathLike]) -> BiLMNetwork:
    """options_file (Optional[PathLike]): options.json; None if `weight_file` is enough.
    weight_file (Optional[PathLike]): HDF5 file with the weights; without `options_file` everything that `load_bilm`
        takes, such as "en_elmo_sm" or a folder.
    RETURNS (BiLMNetwork): The network.
    RAISES (ValueError): EL330 for a URL, EL331 for a biLM that AllenNLP's modules cannot hold, EL332 and EL333 for
        missing files, also for files that cannot be read.
    """
    if options_file is None and isinstance(weight_file, (str, Path)):
        check_no_url("weight_file", weight_file)
        bilm = load_bilm(weight_file)
    else:
        options = check_file("options_file", options_file)
        bilm = load_bilm(options=options, weights=check_file("weight_file", weight_file))
    return check_fit(bilm)


def check_fit(bilm: BiLM) -> BiLMNetwork:
    """RETURNS (BiLMNetwork): Its network.
    RAISES (ConfigurationError): EL331 for parts that AllenNLP's modules do not have.
    """
    problems = _problems(bilm.config)
    if bilm.token_embeddings is not None:
        problems.append("it has precomputed token embeddings")
    if bilm.precision != "float32":
        problems.append(f"its precision is {bilm.precision}")
    if problems:
        raise ConfigurationError(Errors.EL331.format(problems="; ".join(problems)))
    return bilm.network


def _problems(config: BiLMConfig) -> List[str]:
    characters = config.char_cnn
    checks = [
        (config.encoder == "lstm", f"its encoder is '{config.encoder}'"),
        (config.n_directions == 2, "it has one direction"),
        (config.has_projection, "its LSTM layers have no projection"),
        (not config.highway_between, "it has highways between LSTM layers"),
        (characters is not None, "it has no character CNN"),
        (characters is None or config.has_cnn_projection, "its character CNN has no projection"),
        (characters is None or characters.codec == "utf8", "its characters are not UTF-8 bytes"),
    ]
    return [problem for is_fine, problem in checks if not is_fine] + find_other_characters(config)
