"""Speed and memory of one pipeline, in a process that imports what the pipeline needs and nothing else.

`python speed.py PIPELINE TEST.spacy` prints JSON: words per second of CPU time, tokenizer included, and the peak of the
memory in MB. A process of choice.py.
"""

import gc
import importlib
import json
import platform
import resource
import sys
import time
from pathlib import Path

import spacy
from spacy.tokens import DocBin
from spacy.vocab import Vocab

N_WARM_UP = 50  # texts
UNIT = 1 if platform.system() == "Darwin" else 1024  # of the peak: bytes, or kB on Linux
MB = 1e6


def main(pipeline: Path, test_path: Path) -> None:
    """Loading and the first texts are not counted."""
    texts = [doc.text for doc in DocBin().from_disk(test_path).get_docs(Vocab())]
    if "project_minilm" in (pipeline / "config.cfg").read_text(encoding="utf8"):
        sys.path.append(str(Path(__file__).parents[2] / "scripts"))  # of the example: shared.py
        importlib.import_module("minilm")
    nlp = spacy.load(pipeline)
    for _ in nlp.pipe(texts[:N_WARM_UP]):
        pass
    gc.collect()
    start_s = time.process_time()
    n_words = sum(len(doc) for doc in nlp.pipe(texts))
    elapsed_s = time.process_time() - start_s
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT / MB
    print(json.dumps({"words_per_s": n_words / elapsed_s, "memory_mb": memory_mb}))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
