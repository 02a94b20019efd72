"""What raw text gives a network: a pretrained tok2vec, static floret vectors or a biLM, within a time limit.

Each is a folder with its record.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Literal, Tuple

import spacy
import srsly
import typer
from spacy import registry
from spacy.language import DEFAULT_CONFIG_PRETRAIN_PATH, Language
from spacy.tokens import Doc
from spacy.training.initialize import convert_vectors
from spacy.training.pretrain import pretrain
from spacy.util import load_config
from thinc.api import Config
from wasabi import msg

from spacy_elmo.files import hash_file
from spacy_elmo.pretraining.vocabulary import save_vocabulary
from spacy_elmo.weights.contents import hash_weights

sys.path.append(str(Path(__file__).parents[2] / "scripts"))  # of the example: data.py, shared.py
from datasets import read_sentences
from named_configs import read_any_config
from shared import CONFIG_DIR, N_DIGITS, report_errors, write_json
from stored import TRAINING_DIR

ALTERNATIVES_DIR = TRAINING_DIR / "alternatives"
RECORD = "record.json"  # written last: a folder with a record is complete
WEIGHTS = "model-last.bin"  # of a tok2vec; the name that spaCy gives
BILM = "bilm"  # folder of the weights, beside the record
# As spaCy advises for floret: two hashes per n-gram, n-grams of 4 and 5 characters, 50,000 rows; CBOW. One thread.
FLORET = {"model": "cbow", "mode": "floret", "hashCount": 2, "bucket": 50000, "minn": 4, "maxn": 5, "thread": 1}
FLORET_WIDTH = 128
MIN_COUNT = 5
PROBE_SHARE = 20  # one of so many sentences is used to measure the speed of floret
SHORTEST_S = 0.01  # a pass over the probe, seconds
PROBE_TOKENS = 200_000  # read once to measure the speed of the biLM
HELD_OUT = 500  # one sentence of so many is held out, since `elmo pretrain` reports perplexities
SPARE = 0.97  # of the time left, for loading and saving the biLM
Sentences = Callable[[], Iterator[List[str]]]
Source = Dict[str, Any]


@report_errors("Cannot train on the text")
def pretrain_cli(
    kind: Literal["tok2vec", "floret", "bilm"] = typer.Argument(..., help="What to make"),
    texts: List[str] = typer.Argument(..., help="Tokenized text, one sentence per line: files, folders or patterns"),
    config: str = typer.Option("baseline_ner.cfg", "--config", "-c", help="Config whose tok2vec to train"),
    seconds: float = typer.Option(600, "--seconds", "-t", min=1, help="Limit of the wall time"),
    share: int = typer.Option(100, "--share", "-p", min=1, max=100, help="Percentage of the sentences to read"),
    output: Path = typer.Option(ALTERNATIVES_DIR, "--output", "-o", help="Folder of the alternatives", file_okay=False),
    force: bool = typer.Option(False, "--force", "-F", help="Replace what is complete"),
) -> None:
    """Train as many passes over the text as fit into the time: `spacy pretrain` with its character objective, floret
    as `spacy init vectors --mode floret` reads it, or configs/pretrain_en_elmo_sm.cfg.
    """
    output_dir = source_dir(output, kind, config)
    if (output_dir / RECORD).exists() and not force:
        msg.info(f"{output_dir} is complete; --force makes it again")
        return
    source = make_source(kind, texts, output, limit_s=seconds, share=share, config=config)
    msg.good(f"{output_dir}: {source['words']:,} words in {source['elapsed_s']:.0f} s")


def source_dir(folder: Path, kind: str, config: str) -> Path:
    """RETURNS (Path): Folder of an alternative: pretrained weights fit the network of one config only."""
    return folder / (f"{kind}-{Path(config).stem.removeprefix('baseline_')}" if kind == "tok2vec" else kind)


def load_source(folder: Path, kind: str, config: str) -> Source:
    """RETURNS (Source): The record of an alternative. RAISES (FileNotFoundError): If it was not made."""
    path = source_dir(folder, kind, config) / RECORD
    if not path.is_file():
        raise FileNotFoundError(f"'{path}' does not exist. Make it with `pretrain.py {kind} TEXTS`, raw text.")
    record: Source = srsly.read_json(path)
    return record


def make_source(
    kind: str,
    texts: List[str],
    output: Path,
    *,
    limit_s: float,
    share: int = 100,
    config: str = "baseline_ner.cfg",
) -> Source:
    """Write what raw text gives, and last its record.

    kind (str): "tok2vec" for `initialize.init_tok2vec`, "floret" for `initialize.vectors`, or "bilm".
    RETURNS (Source): The record: "kind"; "text", its name; "share", percentage of its sentences; "words" trained on,
        those of several passes counted several times; "limit_s", "elapsed_s" and "cpu_s", wall and CPU time, which is
        less where the machine did other work; "digest" of what was made.
    RAISES (ValueError): Without text or time. RAISES (ImportError): Without floret.
    """
    output_dir = source_dir(output, kind, config)
    if kind == "floret" and find_spec("floret") is None:
        raise ImportError("Static vectors need floret, which is not installed. Install it: `pip install floret`.")
    next(read_sentences(texts, share))  # raises its error now, not after the network was built
    output_dir.mkdir(parents=True, exist_ok=True)
    (output_dir / RECORD).unlink(missing_ok=True)
    start_s, cpu_start_s = time.monotonic(), _cpu_seconds()
    if kind == "tok2vec":
        words, made = _pretrain_tok2vec(config, output_dir, {"texts": texts, "share": share, "limit_s": limit_s})
    else:
        make = _train_floret if kind == "floret" else _pretrain_bilm
        words, made = make(partial(read_sentences, texts, share), output_dir, start_s + limit_s)
    source = {
        "kind": kind,
        "text": ", ".join("/".join(Path(text).parts[-2:]) for text in texts),  # without the folders of a machine
        "share": share,
        "words": words,
        "limit_s": limit_s,
        "elapsed_s": round(time.monotonic() - start_s, 1),
        "cpu_s": round(_cpu_seconds() - cpu_start_s, 1),
        "digest": hash_weights(made) if kind == "bilm" else hash_file(made)[:N_DIGITS],
    }
    write_json(output_dir / RECORD, source)
    return source


def _cpu_seconds() -> float:
    """RETURNS (float): CPU time of this process and of those it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


# tok2vec


@registry.readers("project.TimedText.v1")
def create_timed_text(texts: List[str], share: int, limit_s: float) -> Callable[[Language], Iterator[Doc]]:
    """RETURNS (Callable[[Language], Iterator[Doc]]): A corpus for `spacy pretrain`: the text, repeated until the time
    is over, which begins at the first sentence.
    """

    def read(nlp: Language) -> Iterator[Doc]:
        end_s = time.monotonic() + limit_s
        for _ in count():
            for tokens in read_sentences(texts, share):
                if time.monotonic() > end_s:
                    return
                yield Doc(nlp.vocab, words=tokens)

    return read


def _pretrain_tok2vec(config: str, output_dir: Path, text: Dict[str, Any]) -> Tuple[int, Path]:
    """RETURNS (Tuple[int, Path]): Words trained on, and the weights."""
    (output_dir / "log.jsonl").unlink(missing_ok=True)
    settings = read_any_config(config)
    add_pretraining(settings)
    settings["pretraining"]["max_epochs"] = 1
    settings["corpora"]["pretrain"] = {"@readers": "project.TimedText.v1", **text}
    pretrain(settings.interpolate(), output_dir, silent=True)
    return max(row["nr_word"] for row in srsly.read_jsonl(output_dir / "log.jsonl")), output_dir / WEIGHTS


def add_pretraining(config: Config) -> None:
    """Add spaCy's default settings of `spacy pretrain`. The tok2vec inside of the only component becomes a component:
    the same network, but `spacy pretrain` cannot train the one inside of a parser or NER, whose layer "tok2vec" ends in
    a projection to one array (spaCy 3.8).
    """
    if "tok2vec" not in config["nlp"]["pipeline"]:
        (name,) = config["nlp"]["pipeline"]
        model = config["components"][name]["model"]
        width = model["tok2vec"]["encode"]["width"]
        config["components"]["tok2vec"] = {"factory": "tok2vec", "model": model["tok2vec"]}
        model["tok2vec"] = {"@architectures": "spacy.Tok2VecListener.v1", "width": width, "upstream": "tok2vec"}
        config["nlp"]["pipeline"].insert(0, "tok2vec")
    defaults = load_config(DEFAULT_CONFIG_PRETRAIN_PATH, interpolate=False)
    config["pretraining"] = defaults["pretraining"]
    config["corpora"]["pretrain"] = defaults["corpora"]["pretrain"]
    config["paths"]["raw_text"] = None


# floret


def _train_floret(sentences: Sentences, output_dir: Path, end_s: float) -> Tuple[int, Path]:
    """Measure one pass over a 20th of the text, less the time for the table of vectors, which one word needs, too; then
    train as many passes as end before `end_s`.

    RETURNS (Tuple[int, Path]): Words trained on, and the vectors of a pipeline.
    RAISES (ValueError): If one pass takes too long.
    """
    with tempfile.TemporaryDirectory() as folder:
        text, probe, word, vectors = (Path(folder) / name for name in ("text", "probe", "word", "vectors.floret"))
        n_words = 0
        with text.open("w", encoding="utf8", newline="\n") as lines, probe.open("w", encoding="utf8") as some:
            for number, tokens in enumerate(sentences()):
                n_words += len(tokens)
                lines.write(" ".join(tokens) + "\n")
                if number % PROBE_SHARE == 0:
                    some.write(" ".join(tokens) + "\n")
        word.write_text("word\n", encoding="utf8")
        setup_s, probe_s = _time_pass(word), _time_pass(probe)
        left_s = end_s - setup_s - time.monotonic()
        n_passes = int(left_s / (max(probe_s - setup_s, SHORTEST_S) * PROBE_SHARE))
        if n_passes < 1:
            raise ValueError(
                f"One pass over the text takes longer than the {max(left_s, 0):.0f} s left. Read less text with "
                "--share or allow more time with --seconds."
            )
        _run_floret(text, n_passes).save_floret_vectors(str(vectors))
        nlp = spacy.blank("en")
        convert_vectors(nlp, vectors, truncate=0, prune=-1, mode="floret")
        nlp.to_disk(output_dir)
    return n_words * n_passes, output_dir / "vocab" / "vectors"


def _time_pass(text: Path) -> float:
    """RETURNS (float): Seconds of one pass."""
    start_s = time.monotonic()
    _run_floret(text, 1, min_count=1)
    return time.monotonic() - start_s


def _run_floret(text: Path, n_passes: int, *, min_count: int = MIN_COUNT) -> Any:
    settings = {**FLORET, "dim": FLORET_WIDTH, "minCount": min_count, "epoch": n_passes, "verbose": 0}
    return import_module("floret").train_unsupervised(str(text), **settings)


# biLM


def _pretrain_bilm(sentences: Sentences, output_dir: Path, end_s: float) -> Tuple[int, Path]:
    """Count the vocabulary, measure the speed on a part of the text, and train on as much as fits into the time, the
    learning rate falling to zero at the limit.

    RETURNS (Tuple[int, Path]): Words trained on, and the biLM. RAISES (ValueError): If no time is left.
    """
    shutil.rmtree(output_dir / BILM, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=output_dir) as folder:
        text, held_out, words = (Path(folder) / name for name in ("text.txt", "valid.txt", "vocab.txt"))
        with text.open("w", encoding="utf8", newline="\n") as lines, held_out.open("w", encoding="utf8") as others:
            for number, tokens in enumerate(sentences()):
                (lines if number % HELD_OUT else others).write(" ".join(tokens) + "\n")
        save_vocabulary([str(text)], words)

        def train(name: str, n_tokens: int) -> Dict[str, Any]:
            """Call `elmo pretrain`. RETURNS (Dict[str, Any]): The last row of its log."""
            settings = {"train": text, "valid": held_out, "vocab": words}
            options = [argument for key, path in settings.items() for argument in (f"--paths.{key}", str(path))]
            command = [sys.executable, "-m", "spacy_elmo", "pretrain", str(CONFIG_DIR / "pretrain_en_elmo_sm.cfg")]
            command += [str(Path(folder) / name), *options, "--pretraining.max_tokens", str(n_tokens)]
            if subprocess.run(command).returncode:
                raise ValueError("`elmo pretrain` failed. Correct what it says.")
            return list(srsly.read_jsonl(Path(folder) / name / "log.jsonl"))[-1]

        tokens_per_s = train("probe", PROBE_TOKENS)["tokens_per_s"]
        n_tokens = int(SPARE * (end_s - time.monotonic()) * tokens_per_s)
        if n_tokens <= 0:
            raise ValueError(
                "The time of --seconds is over before a biLM could be trained. Allow more time, or read less text with "
                "--share."
            )
        n_trained = int(train("run", n_tokens)["n_tokens"])
        (Path(folder) / "run" / "model-last").rename(output_dir / BILM)
    return n_trained, output_dir / BILM


if __name__ == "__main__":
    typer.run(pretrain_cli)
