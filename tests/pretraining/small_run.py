"""A small run as a separate process, for tests that kill it or start several.

python small_run.py OUTPUT TEXT [--kill-at STEP] [--kill-in-checkpoint] [--settings JSON]
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch

import spacy_elmo
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.network import BiLMNetwork, SoftmaxHead
from spacy_elmo.corpora.shards import find_shards
from spacy_elmo.pretraining import run_folder
from spacy_elmo.pretraining.data import read_held_out
from spacy_elmo.pretraining.distributed import Ranks, connect, report_lost_ranks, restart_count
from spacy_elmo.pretraining.run import Pretraining
from spacy_elmo.pretraining.run_config import PretrainConfig
from spacy_elmo.pretraining.stored_text import store_text
from spacy_elmo.pretraining.vocabulary import count_vocabulary
from spacy_elmo.settings import read_block

BILM = {
    "char_cnn": {"embedding_width": 4, "filters": [[1, 8], [3, 8]], "n_highway": 1},
    "cell_width": 24,
    "projection_width": 8,
}
TRANSFORMER = {  # the default cell_width, instead of that of the small LSTM
    "encoder": "transformer",
    "cell_width": 4096,
    "transformer": {"feedforward_width": 16, "n_heads": 2},
}
SETTINGS = {
    "batch_size": 4,
    "unroll_steps": 8,
    "max_tokens": 32 * 60,
    "eval_every": 30,
    "report_every": 1,
    "checkpoint_every": 7,
    "shuffle_blocks": 3,
    "block_sentences": 2,
    "dropout": 0.1,
    "recurrent_dropout": 0.1,
    "precision": "float32",
    "softmax": {"kind": "sampled", "n_negatives": 7},
    "optimizer": {"learn_rate": 0.02},
    "schedule": {"warmup_steps": 5},
}


def write_text(path, n_lines=90):
    """A text with some structure to learn."""
    words = "the river runs past the old mill and the bank of the town where she sat and read".split()
    lines = [" ".join(words[i % 7 : i % 7 + 3 + (i * i) % 9]) for i in range(n_lines)]
    path.write_text("\n".join(lines) + "\n", encoding="utf8")
    return path


def make_run(output, text, *, bilm=None, tied=False, ranks=Ranks(), meta=None, **settings):
    """text: A file, or a folder of files. RETURNS (Pretraining): Not begun yet."""
    shards = find_shards(sorted(Path(text).iterdir()) if Path(text).is_dir() else text)
    config = read_block(PretrainConfig, {**SETTINGS, **settings}, "[pretraining] block")
    with tempfile.TemporaryDirectory() as folder:  # its files stay mapped
        stored = store_text(shards, Path(folder) / "text", max_sentence_tokens=config.max_sentence_tokens)
        return _make_run(stored, shards, config, output, bilm=bilm, tied=tied, ranks=ranks, meta=meta)


def _make_run(stored, shards, config, output, *, bilm, tied, ranks, meta):
    vocabulary = count_vocabulary(stored.counted_words(), n_words=100).vocabulary()
    config = config.fit_to_corpus(n_words=len(vocabulary), n_predictions=stored.n_predictions)
    torch.manual_seed(config.seed)
    sizes = BiLMConfig.from_dict({**BILM, **(bilm or {})})
    network = BiLMNetwork(sizes)
    head = SoftmaxHead.tied(network.word_embedding) if tied else SoftmaxHead(len(vocabulary), sizes.projection_width)
    held_out = read_held_out(shards, config.eval_sentences)
    network.to(ranks.device), head.to(ranks.device)
    return Pretraining(network, head, vocabulary, stored, held_out, config, Path(output), meta=meta, ranks=ranks)


def train(run, n_reports=None, **begin):
    """RETURNS (Pretraining): The run after so many reports, or at its end."""
    run.begin(**begin)
    for number, _ in enumerate(run.reports(), start=1):
        if number == n_reports:
            break
    return run


def rows(output):
    """RETURNS (List[Dict[str, Any]]): Lines of the log without what a clock said."""
    times = ("elapsed_s", "tokens_per_s", "data_share")
    found = map(json.loads, (output / "log.jsonl").read_text().splitlines())
    return [{name: value for name, value in row.items() if name not in times} for row in found]


def environment():
    """RETURNS (Dict[str, str]): For a process that finds the same package as this one."""
    return {**os.environ, "PYTHONPATH": str(Path(spacy_elmo.__file__).parents[1])}


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def _gloo_threads():
    found = []
    for path in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            found.append(path.read_text())
    return [name for name in found if "gloo" in name]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("text")
    parser.add_argument("--kill-at", type=int, default=-1)
    parser.add_argument("--kill-rank", type=int, default=0)
    parser.add_argument("--kill-in-checkpoint", action="store_true")
    parser.add_argument("--settings", type=json.loads, default={})
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with connect("cpu") as ranks:
        run = make_run(arguments.output, arguments.text, ranks=ranks, **arguments.settings)
        is_mortal = ranks.rank == arguments.kill_rank and not restart_count()
        if arguments.kill_in_checkpoint:
            run_folder.hash_file = lambda path: die()  # both files are written, the folder is not in place
        run.begin(resume=True)
        with report_lost_ranks(ranks.rank):
            for report in run.reports():
                if is_mortal and report.step == arguments.kill_at:
                    die()
    deadline = time.monotonic() + 10  # threads take a while to end on a busy machine
    while (left := _gloo_threads()) and time.monotonic() < deadline:
        time.sleep(0.1)
    if left:  # one of them may abort this process while the interpreter shuts down
        sys.exit(f"The group of ranks is still there, with threads {left}")


if __name__ == "__main__":
    main()
