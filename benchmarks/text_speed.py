"""Speed of the text of pretraining: from a file to the arrays of an update, on one core.

python benchmarks/text_speed.py                  # lanes of en_elmo_sm on a GPU, and a small run
python benchmarks/text_speed.py --base HEAD~1    # and the same of another commit, in alternate processes
python benchmarks/text_speed.py --ranks 1 --ranks 16 --ranks 64    # text of one of so many ranks, see shard_text

Both sides print a checksum of their arrays, which should be the same.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import typer
from corpus import ROOT, SHARED, export_commit

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.corpora.shards import TextShard
from spacy_elmo.pretraining.config import PretrainConfig
from spacy_elmo.pretraining.data import BlockStream, TextReader
from spacy_elmo.text.words import Vocabulary

TEXT = Path("data") / "lm-english" / "train-00.txt.gz"
SHAPES = {"1024 lanes, blocks": (1024, 32, 50), "1024 lanes, sentences": (1024, 32, 1), "64 lanes": (64, 32, 50)}
LANES_OF_RANK, STEPS_OF_RANK = 128, 20


def main(
    # fmt: off
    base: Optional[str] = typer.Option(None, "--base", "-b", help="A commit to compare with."),
    n_tokens: int = typer.Option(1_500_000, "--tokens", "-n", help="Tokens per measurement."),
    repeats: int = typer.Option(3, "--repeats", "-r", help="Measurements, each in a process of its own."),
    ranks: List[int] = typer.Option([], "--ranks", "-k", help="Instead, measure one of so many ranks."),
    shared: Path = SHARED,
    side: bool = typer.Option(False, "--side", help="Measure this process and print JSON."),
    # fmt: on
) -> None:
    """Print tokens/s, and the ratio to the other commit."""
    if side:
        print(json.dumps({name: measure(shared / TEXT, *shape, n_tokens) for name, shape in SHAPES.items()}))
        return
    if ranks:
        measure_ranks(sorted(shared.glob("data/lm-english/train-*.txt.gz")), ranks, repeats)
        return
    with tempfile.TemporaryDirectory() as folder:
        places = {"here": ROOT}
        if base is not None:
            places[base] = export_commit(base, Path(folder))
        found: Dict[str, List[Any]] = {name: [] for name in places}
        for _ in range(repeats):
            for name, place in places.items():
                found[name].append(_ask(place, n_tokens, shared))
    for shape in SHAPES:
        rates = {name: statistics.median(one[shape]["rate"] for one in results) for name, results in found.items()}
        for name in found:
            against = f"{rates['here'] / rates[name]:6.2f} x" if name != "here" else ""
            print(f"{shape:24} {name:12} {rates[name]:12,.0f} tokens/s {against}")
        if len({one[shape]["checksum"] for results in found.values() for one in results}) > 1:
            print(f"{shape}: the arrays differ", file=sys.stderr)
            raise typer.Exit(1)


def measure(text: Path, n_lanes: int, n_steps: int, block_sentences: int, n_tokens: int) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Tokens/s, a checksum of all arrays."""
    config = PretrainConfig(
        batch_size=n_lanes, unroll_steps=n_steps, block_sentences=block_sentences, shuffle_blocks=1000
    )
    reader = _make_reader([text], config, slice(0, n_lanes))
    seconds, checksum, n_read, n_timed = 0.0, 0, 0, 0
    n_first = 30 * n_lanes * block_sentences  # fill the shuffle buffer and the lanes
    while n_read < n_first + n_tokens:
        began = time.process_time()
        (chunk,) = reader.read().chunks
        taken = time.process_time() - began
        if n_read >= n_first:
            n_timed, seconds = n_timed + chunk.n_predictions, seconds + taken
        n_read += chunk.n_predictions
        for array in (chunk.words, chunk.lengths, chunk.places, chunk.targets):
            checksum = zlib.crc32(np.asarray(array, dtype="int64").tobytes(), checksum)
    return {"rate": n_timed / seconds, "checksum": checksum}


def measure_ranks(texts: Sequence[Path], counts: Sequence[int], repeats: int) -> None:
    """Print the time in which a rank reads the text of an update, of all lanes or of its own, and the memory."""
    for n_ranks in counts:
        n_lanes = n_ranks * LANES_OF_RANK
        config = PretrainConfig(batch_size=n_lanes, unroll_steps=STEPS_OF_RANK, shuffle_blocks=1000)
        reader = _make_reader(texts, config, slice(0, LANES_OF_RANK))
        began = time.process_time()
        reader.read()
        first = time.process_time() - began
        n_updates = 40  # a block of a lane lasts about ten
        times = []
        for _ in range(repeats):
            began = time.process_time()
            for _ in range(n_updates):
                reader.read()
            times.append((time.process_time() - began) / n_updates)
        state_mb = len(json.dumps(reader.state_dict()[1])) / 1e6
        told = f"{statistics.median(times) * 1000:.2f} ms an update, {first:.2f} s the first one"
        print(f"{n_ranks} ranks, {n_lanes:,} lanes: {told}; a position of {state_mb:.1f} MB", flush=True)


def _make_reader(texts: Sequence[Path], config: PretrainConfig, own_lanes: slice) -> TextReader:
    words = sorted({word for tokens in _sentences(texts[0], 20_000) for word in tokens})
    stream = BlockStream(
        [TextShard(text) for text in texts],
        block_sentences=config.block_sentences,
        seed=0,
        shuffle_blocks=config.shuffle_blocks,
    )
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", *words[:30_000]])
    return TextReader(stream, vocabulary, BiLMConfig.from_dict({"char_cnn": {}}), config, own_lanes)


def _sentences(text: Path, n: int) -> Any:
    stream = BlockStream([TextShard(text)], block_sentences=n, seed=0)
    return next(stream)


def _ask(place: Path, n_tokens: int, shared: Path) -> Any:
    command = [sys.executable, __file__, "--side", "--tokens", str(n_tokens), "--shared", str(shared)]
    environ = {**os.environ, "PYTHONPATH": str(place), "OMP_NUM_THREADS": "1"}
    return json.loads(subprocess.run(command, check=True, env=environ, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    typer.run(main)
