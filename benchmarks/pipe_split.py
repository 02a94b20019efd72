"""Time of each part of `nlp.pipe`: exclusive times of its functions.

Run by `inference.py` in a separate process. Timers have an overhead; the same text is also timed without them.
"""

import functools
import importlib
import json
import sys
import threading
import time
from typing import Any, Callable, Dict, List

import measure
import torch
from systems import Pipe

MAKING = "making the Docs"
WORDS, LSTM = "biLM: word vectors", "biLM: LSTM"
BILM = (WORDS, LSTM)
REST = "spaCy, the rest"
# Functions by part: a module, and a name in it. Functions they call are included if they are not listed.
PARTS: Dict[str, List[str]] = {
    "Docs to sequences": ["spacy_elmo.ml.elmo_model:read_docs"],
    "words and lanes": [
        "spacy_elmo.encoding.runs:WordRuns.number",
        "spacy_elmo.encoding.encoder:plan_lanes",
        "spacy_elmo.encoding.encoder:Encoder._run",
        "spacy_elmo.engine.lanes:Schedule.__init__",
        "spacy_elmo.text.lanes:LanePlan.slots",
        "spacy_elmo.engine.lanes:LaneRun.write",
    ],
    WORDS: ["spacy_elmo.encoding.word_encoder:WordEncoder.encode"],
    LSTM: ["spacy_elmo.engine.runner:LSTMRunner.run"],
    "vectors to Docs": [
        "spacy_elmo.pipeline.elmo:Elmo.predict",
        "spacy_elmo.pipeline.elmo:Elmo.set_annotations",
        "spacy_elmo.ml.contexts:DocRuns.gather",
    ],
}


class Split:
    """Seconds by part; time of a nested part is subtracted from the outer one.

    The two directions have one thread each: their time counts half, and is subtracted from that of the LSTM.
    """

    def __init__(self) -> None:
        self.seconds: Dict[str, float] = {}
        self._inner: List[float] = []  # seconds of nested parts, for each running part
        self._lock = threading.Lock()

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """RETURNS (Callable): The function, its time counted for the part."""

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                started = time.perf_counter()
                found = function(*args, **kwargs)
                self._count_half(part, time.perf_counter() - started)
                return found
            self._inner.append(0.0)
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                elapsed_s = time.perf_counter() - started
                own_s = elapsed_s - self._inner.pop()
                self.seconds[part] = self.seconds.get(part, 0.0) + own_s
                if self._inner:
                    self._inner[-1] += elapsed_s

        return run

    def _count_half(self, part: str, elapsed_s: float) -> None:
        with self._lock:
            for name, sign in ((part, 0.5), (LSTM, -0.5)):
                self.seconds[name] = self.seconds.get(name, 0.0) + sign * elapsed_s

    def install(self) -> None:
        """Put timers around the functions of all parts."""
        for part, places in PARTS.items():
            for place in places:
                module, path = place.split(":")
                *outer, name = path.split(".")
                owner = functools.reduce(getattr, outer, importlib.import_module(module))
                setattr(owner, name, self.timed(part, getattr(owner, name)))


def main() -> None:
    """Print one line of JSON."""
    arguments = measure.read_arguments()
    torch.set_num_threads(arguments.threads)
    documents = measure.read_texts(arguments.documents)
    pipe = Pipe(arguments.weights, arguments.batch_size)
    pipe.embed(documents, arguments.batch_size)  # fills the cache of words
    plain_s = _seconds(pipe, documents)
    split = Split()
    split.install()
    pipe.doc = split.timed(MAKING, pipe.doc)  # type: ignore[method-assign]
    whole_s = _seconds(pipe, documents)
    n_tokens = sum(len(sentence) for sentence in measure.flatten(documents))
    seconds = {part: split.seconds[part] for part in (MAKING, *PARTS)}
    seconds[REST] = whole_s - sum(seconds.values())
    result = {"system": arguments.system, "batch_size": arguments.batch_size, "n_tokens": n_tokens}
    sys.stdout.write(json.dumps({**result, "seconds": seconds, "whole_s": whole_s, "plain_s": plain_s}) + "\n")


def _seconds(pipe: Pipe, documents: measure.Documents) -> float:
    started = time.perf_counter()
    pipe.embed(documents, 0)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
