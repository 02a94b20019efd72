"""What the scripts of the example, of `english` and of `experiments` share: configs, a training, digests, messages."""

import hashlib
import platform
import re
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Dict, Iterator, Sequence

import srsly
import typer
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_config
from thinc.api import Config, use_ops
from wasabi import msg

from spacy_elmo.files import write_text
from spacy_elmo.weights.contents import hash_weights

CONFIG_DIR = Path(__file__).resolve().parents[2] / "configs"
SPLITS = ("train", "dev", "test")
N_DIGITS = 12
N_SEEDS = 3  # of a score that does not say how many it has
ASSETS = typer.Option("", "--assets-dir", "-a", help="Folder with local copies; empty for downloads")
# Settings of the component's mix, and their names in digests of stored results, which are older.
EARLIER_NAMES = {"initial_weights": "weights", "initial_gamma": "gamma"}


@contextmanager
def report_errors(title: str) -> Iterator[None]:
    """For a block or a whole command: an error that its user can correct ends it with a message and exit code 1."""
    try:
        yield
    except (ValueError, OSError, ImportError) as e:
        msg.fail(title)
        typer.echo(str(e))  # wasabi would merge the lines
        raise typer.Exit(1) from e


def write_json(path: Path, content: Any) -> None:
    """Write JSON; an interrupted process leaves no file, or the older one."""
    write_text(path, srsly.json_dumps(content, indent=2))


def read_config(name: str) -> Config:
    """name (str): "elmo_<pipeline>.cfg", a file of configs/; "baseline_<pipeline>.cfg" for the same without ELMo.
    RETURNS (Config): Not interpolated.
    """
    variant, _, pipeline = name.partition("_")
    config = Config().from_disk(CONFIG_DIR / f"elmo_{pipeline}", interpolate=False)
    return Config(remove_elmo(config)) if variant == "baseline" else config


def remove_elmo(config: Any) -> Any:
    """RETURNS (Any): A config, or a block of it, without the biLM, the component `elmo` and what listens to it."""
    if not isinstance(config, dict):
        return [name for name in config if name != "elmo"] if isinstance(config, list) else config
    if config.get("@architectures") == "spacy-elmo.ElmoListener.v1":
        return None  # of a text classifier, which has n-grams
    block = {key: remove_elmo(value) for key, value in config.items() if key not in ("elmo", "bilm")}
    if block.get("@architectures") == "spacy-elmo.Tok2VecWithElmo.v1":
        block["@architectures"] = "spacy.Tok2Vec.v2"
    return block


def identify(bilm: str) -> Dict[str, str]:
    """RETURNS (Dict[str, str]): How results name a biLM: the last part of its path, of a pretraining that of its
    folder; and the digest of its weights.
    """
    path = Path(bilm)
    name = path.parent.name if path.name in ("model-best", "model-last") else path.name
    return {"bilm": name, "bilm_digest": hash_weights(bilm)}


def digest_config(config: Config) -> str:
    """RETURNS (str): The first 12 hexadecimal digits of the sha256 of the settings, in any order, without [paths]."""
    settings = deepcopy({name: block for name, block in config.items() if name != "paths"})
    logger = settings.get("training", {}).get("logger", {})
    for block in (logger, logger.get("logger1", {})):  # bars change no result; digests were made with this one
        if block.get("progress_bar", "") is None:
            block["progress_bar"] = "eval"
    mix = settings.get("components", {}).get("elmo", {}).get("mix", {})
    for name in EARLIER_NAMES.keys() & mix.keys():
        mix[EARLIER_NAMES[name]] = mix.pop(name)
    return hashlib.sha256(srsly.json_dumps(settings, sort_keys=True).encode("utf8")).hexdigest()[:N_DIGITS]


def train_pipeline(config_path: Path, output_dir: Path, overrides: Dict[str, Any]) -> None:
    """Train as `spacy train` does, except that numpy multiplies the matrices of the task network instead of BLIS. On a
    processor with AVX-512, which BLIS does not use, that takes about 0.7 times as long (AMD EPYC, family 25, model 17).
    """
    with use_ops("numpy", use_blis=False):
        config = load_config(config_path, overrides=overrides, interpolate=False)
        output_dir.mkdir()
        train(init_nlp(config), output_dir)


def find_processor() -> str:
    """RETURNS (str): Name, family and model, as far as the system tells."""
    path = Path("/proc/cpuinfo")
    text = path.read_text() if path.exists() else ""
    fields = dict(re.findall(r"^(model name|cpu family|model)\s*: (.+?)\s*$", text, flags=re.M))
    if len(fields) < 3:
        return platform.processor() or platform.machine()
    return f"{fields['model name']} (family {fields['cpu family']}, model {fields['model']})"


def summarize(values: Sequence[float], *, sign: str = "", n_seeds: int = N_SEEDS) -> str:
    """RETURNS (str): Mean, sample standard deviation (of two values or more) and number if it is not `n_seeds`."""
    if not values:
        return "-"
    spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
    return f"{mean(values):{sign}.2f}{spread}" + ("" if len(values) == n_seeds else f" (n = {len(values)})")
