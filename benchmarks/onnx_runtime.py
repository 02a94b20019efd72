"""Tokens per second of onnxruntime beside `BiLM.embed`, one thread each, on the same batches; and their difference.

    python benchmarks/onnx_runtime.py en_elmo_sm

Both compute every distinct word of a batch once; ours has its cache of words switched off. Batches have sentences of
similar length, so that the graph, which computes padding, is not slowed by it. Rounds alternate; the best of each
counts. (The file is not named onnx.py, since Python would import it instead of the package.)
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np  # noqa: E402  after the number of threads
import onnxruntime  # noqa: E402
import torch  # noqa: E402

from spacy_elmo import load_bilm  # noqa: E402
from spacy_elmo.export import export_onnx  # noqa: E402
from spacy_elmo.nn import batch_to_ids  # noqa: E402

WORDS = "the of bank river she sat play time year people way day thing world life hand part child eye woman".split()
BATCH_SIZES = (1, 32, 128)


def make_sentences(n, seed=0):
    """n sentences of 5 to 45 words; half of the words are frequent, the others occur about once."""
    rng = np.random.default_rng(seed)
    lengths = sorted(rng.integers(5, 46, n).tolist())
    return [
        [str(rng.choice(WORDS)) if rng.random() < 0.5 else f"word{rng.integers(10**6)}" for _ in range(length)]
        for length in lengths
    ]


def open_session(bilm, threads):
    """The graph of a biLM in onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    with tempfile.TemporaryDirectory() as folder:
        export_onnx(bilm, Path(folder) / "elmo.onnx")
        return onnxruntime.InferenceSession(str(Path(folder) / "elmo.onnx"), options)


def measure(compute, batches, n_tokens):
    """Tokens per second."""
    start = time.perf_counter()
    for batch in batches:
        compute(batch)
    return n_tokens / (time.perf_counter() - start)


def main():
    """Print a row per batch size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bilm", nargs="?", default="en_elmo_sm")
    parser.add_argument("--sentences", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    bilm = load_bilm(arguments.bilm)
    bilm.word_cache.max_bytes = 0
    session, sentences = open_session(bilm, arguments.threads), make_sentences(arguments.sentences)
    max_characters = bilm.config.char_cnn.max_characters
    n_tokens = sum(map(len, sentences))

    def run(batch):
        ids = batch_to_ids(batch, max_characters).numpy()
        return session.run(None, {"char_ids": ids, "lengths": np.array([len(words) for words in batch])})[0]

    print(f"{n_tokens:,} tokens, {arguments.threads} thread(s), {arguments.rounds} rounds, tokens/s")
    print(f"{'batch':>6} {'onnxruntime':>12} {'BiLM.embed':>12} {'ratio':>6} {'difference':>11}")
    for size in BATCH_SIZES:
        batches = [sentences[start : start + size] for start in range(0, len(sentences), size)]
        pairs = zip(run(batches[-1]).swapaxes(0, 1), bilm.embed(batches[-1]))
        difference = max(float(np.abs(row[:, : ours.shape[1]] - ours).max()) for row, ours in pairs)
        rounds = [
            (measure(run, batches, n_tokens), measure(bilm.embed, batches, n_tokens)) for _ in range(arguments.rounds)
        ]
        theirs, ours = (max(column) for column in zip(*rounds))
        print(f"{size:6} {theirs:12,.0f} {ours:12,.0f} {theirs / ours:6.2f} {difference:11.1e}")


if __name__ == "__main__":
    main()
