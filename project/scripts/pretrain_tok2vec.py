"""Pretrain the tok2vec of a network on raw text with `spacy pretrain`, until a time limit."""

import time
from itertools import count
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import srsly
import typer
from alternatives import ALTERNATIVES_DIR, Source, digest_files, is_kept, save_source, source_dir, start_source
from raw_text import name_texts, read_sentences
from read_config import read_config
from spacy import registry
from spacy.language import DEFAULT_CONFIG_PRETRAIN_PATH, Language
from spacy.tokens import Doc
from spacy.training.pretrain import pretrain
from spacy.util import load_config
from thinc.api import Config
from wasabi import msg

WEIGHTS = "model-last.bin"  # the name that spaCy gives


@registry.readers("project.TimedText.v1")
def create_timed_text(texts: List[str], share: int, limit_s: float) -> Callable[[Language], Iterator[Doc]]:
    """texts (List[str]), share (int): See `read_sentences`.
    limit_s (float): Seconds from the first sentence on, after which the text ends; until then it is repeated.
    RETURNS (Callable[[Language], Iterator[Doc]]): A corpus for `spacy pretrain`.
    """

    def read(nlp: Language) -> Iterator[Doc]:
        end_s = time.monotonic() + limit_s
        for _ in count():
            for tokens in read_sentences(texts, share):
                if time.monotonic() > end_s:
                    return
                yield Doc(nlp.vocab, words=tokens)

    return read


def pretrain_cli(
    # fmt: off
    texts: List[str] = typer.Argument(..., help="Tokenized text, one sentence per line: files, folders or patterns"),
    config: str = typer.Option("baseline_ner.cfg", "--config", "-c", help="Config whose tok2vec to train"),
    seconds: float = typer.Option(600, "--seconds", "-t", min=1, help="Limit of the wall time"),
    share: int = typer.Option(100, "--share", "-p", min=1, max=100, help="Percentage of the sentences to read"),
    output: Path = typer.Option(ALTERNATIVES_DIR, "--output", "-o", help="Folder of the alternatives", file_okay=False),
    force: bool = typer.Option(False, "--force", "-F", help="Replace weights that are complete"),
    skip: bool = typer.Option(False, "--skip-complete", "-s", help="Do nothing if they are complete"),
    # fmt: on
) -> None:
    """Pretrain with spaCy's character objective and settings, one pass after the other until the limit."""
    output_dir = source_dir(output, "tok2vec", config)
    if is_kept(output_dir, skip):
        return
    try:
        source = pretrain_tok2vec(texts, config, output, limit_s=seconds, share=share, force=force)
    except (ValueError, OSError) as e:
        msg.fail("Cannot pretrain", str(e), exits=1)
    msg.good(f"{output_dir}: {source.words:,} words in {source.elapsed_s:.0f} s")


def pretrain_tok2vec(
    texts: List[str], config: str, output: Path, *, limit_s: float, share: int = 100, force: bool = False
) -> Source:
    """Write `model-last.bin`, for `initialize.init_tok2vec`, and its record.

    RETURNS (Source): The record.
    RAISES (ValueError): P030 without text. RAISES (FileExistsError): P033 for weights that are complete.
    """
    output_dir = source_dir(output, "tok2vec", config)
    next(read_sentences(texts, share))  # raises its error now, not after the network was built
    start_source(output_dir, force=force)
    (output_dir / "log.jsonl").unlink(missing_ok=True)
    reader = {"@readers": "project.TimedText.v1", "texts": texts, "share": share, "limit_s": limit_s}
    settings = read_config(config)
    add_pretraining(settings)
    settings["pretraining"]["max_epochs"] = 1
    settings["corpora"]["pretrain"] = reader
    start_s, cpu_start_s = time.monotonic(), time.process_time()
    pretrain(settings.interpolate(), output_dir, silent=True)
    elapsed_s = round(time.monotonic() - start_s, 1)
    cpu_s = round(time.process_time() - cpu_start_s, 1)
    words = max(row["nr_word"] for row in srsly.read_jsonl(output_dir / "log.jsonl"))
    digest = digest_files([output_dir / WEIGHTS])
    source = Source("tok2vec", name_texts(texts), share, words, limit_s, elapsed_s, cpu_s, digest)
    save_source(output_dir, source)
    return source


def add_pretraining(config: Config) -> None:
    """Add spaCy's default settings of `spacy pretrain`, for a tok2vec that is a component of its own."""
    share_tok2vec(config)
    defaults = load_config(DEFAULT_CONFIG_PRETRAIN_PATH, interpolate=False)
    config["pretraining"] = defaults["pretraining"]
    config["corpora"]["pretrain"] = defaults["corpora"]["pretrain"]
    config["paths"]["raw_text"] = None


def share_tok2vec(config: Config) -> None:
    """Make the tok2vec inside of the only component a component: the same network, but `spacy pretrain` cannot train
    the one inside of a parser or NER, whose layer "tok2vec" ends in a projection to one array (spaCy 3.8).
    """
    if "tok2vec" in config["nlp"]["pipeline"]:
        return
    (name,) = config["nlp"]["pipeline"]
    model = config["components"][name]["model"]
    width = model["tok2vec"]["encode"]["width"]
    config["components"]["tok2vec"] = {"factory": "tok2vec", "model": model["tok2vec"]}
    model["tok2vec"] = {"@architectures": "spacy.Tok2VecListener.v1", "width": width, "upstream": "tok2vec"}
    config["nlp"]["pipeline"].insert(0, "tok2vec")


def find_tok2vec(config: Config) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): The block of the shared tok2vec, or of the one inside of the only component."""
    components, pipeline = config["components"], config["nlp"]["pipeline"]
    model: Dict[str, Any] = components[pipeline[0]]["model"]
    return model if pipeline[0] == "tok2vec" else dict(model)["tok2vec"]


if __name__ == "__main__":
    typer.run(pretrain_cli)
