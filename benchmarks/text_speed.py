"""Text of pretraining: time to the first update, tokens per second, memory and disk, beside those of a baseline.

python benchmarks/text_speed.py ../base          # a checkout of 148bc93b, which reads the text while it trains
python benchmarks/text_speed.py ../base --files 105 --ranks 1

Seconds are CPU time of one process with one thread, which other work on the machine changes little. The text is that of
`lm-english`, repeated. The biLM is tiny, and its run ends after one update.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import List, Tuple

import typer
from corpus import ROOT, SHARED

N_UPDATES = 60
SETTINGS = {
    "bilm.cell_width": 8,
    "bilm.projection_width": 4,
    "bilm.char_cnn.filters": "[[1,4]]",
    "pretraining.batch_size": 256,
    "pretraining.unroll_steps": 32,
    "pretraining.max_tokens": 8192,
    "pretraining.shuffle_blocks": 1000,
    "pretraining.eval_sentences": 10,
    "pretraining.precision": "float32",
    "pretraining.softmax.kind": "sampled",
    "pretraining.softmax.n_negatives": 64,
}
# Prints the tokens per second at which one of N ranks reads updates, with the classes of the baseline or of today.
READ = """
import sys, time
from pathlib import Path
from spacy_elmo import BiLMConfig
from spacy_elmo.corpora.shards import find_shards
from spacy_elmo.pretraining import data
from spacy_elmo.pretraining.run_config import PretrainConfig
from spacy_elmo.text.words import Vocabulary
folder, n_ranks, n_updates = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
config = PretrainConfig(batch_size=256 * n_ranks, unroll_steps=32, shuffle_blocks=1000)
vocabulary = Vocabulary.from_lines((folder / "words.txt").open(encoding="utf8"))
settings = vocabulary, BiLMConfig.from_dict({"char_cnn": {}}), config, slice(0, 256)
if hasattr(data, "BlockStream"):
    shards = find_shards(sorted((folder / "corpus").iterdir()))
    stream = data.BlockStream(shards, seed=0, block_sentences=8, shuffle_blocks=1000, shuffle_shards=True)
    reader = data.TextReader(stream, *settings)
else:
    from spacy_elmo.pretraining.stored_text import open_text
    reader = data.TextReader(open_text(folder / "here" / "text", sys.argv[4]), *settings)
    reader.seek(0)
reader.read()
began = time.process_time()
for _ in range(n_updates):
    reader.read()
print(n_updates * 256 * 32 / (time.process_time() - began))
"""


def main(
    # fmt: off
    base: Path = typer.Argument(..., help="Checkout of the baseline, with its compiled modules.", exists=True),
    files: List[int] = typer.Option([1, 17], "--files", "-f", help="Files of 4.8 M tokens (105: 500 M)."),
    ranks: List[int] = typer.Option([1, 16], "--ranks", "-k", help="Processes, one of which reads its 256 lanes."),
    shared: Path = SHARED,
    # fmt: on
) -> None:
    """Print a table for each size of text."""
    texts = shared / "data" / "lm-english"
    for n_files in files:
        with tempfile.TemporaryDirectory(prefix="text_speed.") as name:
            corpus = Path(name) / "corpus"
            corpus.mkdir()
            for i in range(n_files):
                shutil.copy(texts / f"train-{i % 6:02}.txt.gz", corpus / f"{i:03}.txt.gz")
            measure(Path(name), texts / "valid.txt.gz", base.resolve(), ranks)


def measure(folder: Path, held_out: Path, base: Path, ranks: List[int]) -> None:
    """Print the table of the text in `folder / "corpus"`."""
    run(
        [sys.executable, "-m", "spacy_elmo", "vocab", str(folder / "corpus" / "000.txt.gz"), f"{folder}/words.txt"],
        ROOT,
    )
    commands = {
        "first update, words counted": ("here", []),
        "first update, with a vocabulary": ("with_words", ["--paths.vocab", f"{folder}/words.txt"]),
        "first update of the second run": ("here", ["--force"]),
    }
    print(f"\n{len(list((folder / 'corpus').iterdir()))} file(s){'':24} {'base':>10} {'here':>10} {'base / here':>12}")
    for name, (output, options) in commands.items():
        seconds, memory = zip(*(train(folder, held_out, side, output, options) for side in (base, ROOT)))
        show(f"{name}, s", *seconds)
        show(f"{name}, peak MB", *memory)
    text = folder / "here" / "text"
    source = json.loads((text / "text.json").read_text(encoding="utf8"))["source"]
    for n_ranks in ranks:
        command = [sys.executable, "-c", READ, str(folder), str(n_ranks), str(N_UPDATES), source]
        show(f"{n_ranks} rank(s), million tokens/s", *(float(run(command, side)[2]) / 1e6 for side in (base, ROOT)))
    n_tokens = (text / "numbers.bin").stat().st_size / 4
    n_bytes = sum(file.stat().st_size for file in text.iterdir())
    print(f"{n_tokens / 1e6:.1f} M tokens, {n_bytes / n_tokens:.2f} bytes of disk per token", flush=True)


def train(folder: Path, held_out: Path, side: Path, output: str, options: List[str]) -> Tuple[float, float]:
    """RETURNS (Tuple[float, float]): CPU seconds and peak memory in MB of a run of one update."""
    output = output if side == ROOT else f"{output}_base"
    paths = {"paths.train": folder / "corpus", "paths.valid": held_out}
    settings = [str(part) for name, value in {**paths, **SETTINGS}.items() for part in (f"--{name}", value)]
    config = side / "configs" / "pretrain_en_elmo_sm.cfg"
    command = [sys.executable, "-m", "spacy_elmo", "pretrain", str(config), str(folder / output), *settings, *options]
    return run(command, side)[:2]


def run(command: List[str], side: Path) -> Tuple[float, float, str]:
    """RETURNS (Tuple[float, float, str]): CPU seconds, peak memory in MB, and what a command of a checkout prints."""
    variables = {**os.environ, "PYTHONPATH": str(side), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(command, env=variables, cwd=side, stdout=printed, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        printed.seek(0)
        text = printed.read()
    if status:
        raise SystemExit(f"{' '.join(command)} failed:\n{text}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text


def show(name: str, base: float, here: float) -> None:
    print(f"{name:44} {base:10.2f} {here:10.2f} {base / here:12.2f}", flush=True)


if __name__ == "__main__":
    typer.run(main)
