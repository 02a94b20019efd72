"""Speed of the text of pretraining with many processes: what one of them takes to read its lanes of an update.

python benchmarks/text_speed.py                          # with 1, 16 and 64 processes, see `shard_text`
python benchmarks/text_speed.py --ranks 8 --repeats 9
"""

import json
import statistics
import time
from pathlib import Path
from typing import List

import typer
from corpus import SHARED

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.corpora.shards import TextShard
from spacy_elmo.pretraining.config import PretrainConfig
from spacy_elmo.pretraining.data import BlockStream, TextReader
from spacy_elmo.text.words import Vocabulary

LANES, STEPS = 128, 20  # of a rank
N_UPDATES = 40  # a block of a lane lasts about ten
N_WORDS = 30_000


def main(
    # fmt: off
    ranks: List[int] = typer.Option([1, 16, 64], "--ranks", "-k", help="Numbers of processes."),
    repeats: int = typer.Option(3, "--repeats", "-r", help=f"Times {N_UPDATES} updates; medians are printed."),
    shared: Path = SHARED,
    # fmt: on
) -> None:
    """Print the CPU time in which a rank reads the text of an update, of all lanes and its own, the tokens/s to which
    that limits all ranks, and the size of the position that is saved.
    """
    shards = [TextShard(text) for text in sorted(shared.glob("data/lm-english/train-*.txt.gz"))]
    sentences = next(BlockStream(shards[:1], block_sentences=20_000, seed=0))
    words = sorted({word for tokens in sentences for word in tokens})[:N_WORDS]
    vocabulary, bilm = Vocabulary(["<S>", "</S>", "<UNK>", *words]), BiLMConfig.from_dict({"char_cnn": {}})
    for n_ranks in ranks:
        config = PretrainConfig(batch_size=n_ranks * LANES, unroll_steps=STEPS, shuffle_blocks=1000)
        blocks = {"block_sentences": config.block_sentences, "shuffle_blocks": config.shuffle_blocks}
        reader = TextReader(BlockStream(shards, seed=0, **blocks), vocabulary, bilm, config, slice(0, LANES))
        began = time.process_time()
        reader.read()
        first, times = time.process_time() - began, []
        for _ in range(repeats):
            began = time.process_time()
            for _ in range(N_UPDATES):
                reader.read()
            times.append((time.process_time() - began) / N_UPDATES)
        update_s, position_mb = statistics.median(times), len(json.dumps(reader.state_dict()[1])) / 1e6
        print(
            f"{n_ranks} ranks: {1000 * update_s:.2f} ms an update, {first:.2f} s the first one, at most "
            f"{config.batch_size * STEPS / update_s:,.0f} tokens/s; a position of {position_mb:.1f} MB",
            flush=True,
        )


if __name__ == "__main__":
    typer.run(main)
