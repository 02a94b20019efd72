"""Time of a training epoch on a frozen biLM, and the share of the biLM, with and without the layer cache.

python benchmarks/frozen_training.py --threads 2 --json out.json
"""

import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import torch
import typer
from corpus import default_shared
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.util import load_model_from_config, minibatch
from thinc.api import Adam, Config, fix_random_seed

from spacy_elmo.ml.listener import get_listeners
from spacy_elmo.pipeline import elmo as _elmo  # noqa: F401  registers the factory where nothing is installed

CONFIG = Path(__file__).parents[1] / "configs" / "elmo_ner.cfg"
TRAIN = Path("data") / "ner" / "wnut17" / "train.spacy"
Result = Dict[str, Any]


class Clock:
    """Sums the seconds of named parts of the training."""

    def __init__(self) -> None:
        self.seconds: Dict[str, float] = defaultdict(float)

    def watch(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """RETURNS (Callable[..., Any]): The same function, timed. If it returns a callback, that is timed too."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            found = call(*args, **kwargs)
            self.seconds[name] += time.perf_counter() - started
            if isinstance(found, tuple) and len(found) == 2 and callable(found[1]):
                return found[0], self.watch(name, found[1])
            return found

        return timed


def main(
    # fmt: off
    epochs: int = typer.Option(3, "--epochs", "-e", help="Passes over the training data."),
    threads: int = typer.Option(2, "--threads", "-t", help="Threads of torch."),
    batch_docs: int = typer.Option(40, "--batch-docs", "-b", help="Docs per update."),
    max_docs: int = typer.Option(0, "--max-docs", "-n", help="Docs of the training data; 0 for all."),
    cache_mb: List[float] = typer.Option([0.0, 1024.0], "--cache-mb", "-c", help="Cache sizes in MB, one run each."),
    cache_dtype: str = typer.Option("float32", "--cache-dtype", "-D", help="float32 or float16."),
    shared: Path = typer.Option(default_shared(), "--shared", "-S", help="Folder with `data`.", exists=True),
    json_path: Optional[Path] = typer.Option(None, "--json", "-j", help="File for the raw numbers."),
    # fmt: on
) -> None:
    """Print seconds of each epoch: total, component elmo, listener, and the rest."""
    torch.set_num_threads(threads)
    results: List[Result] = []
    for size in cache_mb:
        nlp = make_pipeline(size, cache_dtype)
        docs = list(DocBin().from_disk(shared / TRAIN).get_docs(nlp.vocab))[: max_docs or None]
        nlp.initialize(lambda docs=docs: make_examples(docs[:100]))  # type: ignore[misc]
        clock = watch(nlp)
        optimizer = Adam(0.001)
        for epoch in range(1, epochs + 1):
            results.append({"cache_mb": size, "epoch": epoch, **run_epoch(nlp, docs, optimizer, clock, batch_docs)})
            print_row(results)
    if json_path is not None:
        json_path.write_text(json.dumps(results, indent=1), encoding="utf8")


def make_pipeline(cache_mb: float, cache_dtype: str) -> Language:
    """RETURNS (Language): The pipeline of configs/elmo_ner.cfg, not initialised."""
    fix_random_seed(0)
    changes = {"layer_cache_mb": cache_mb, "layer_cache_dtype": cache_dtype}
    return load_model_from_config(
        Config().from_disk(CONFIG, overrides={f"components.elmo.model.{key}": value for key, value in changes.items()}),
        auto_fill=True,
    )


def make_examples(docs: List[Doc]) -> List[Example]:
    """RETURNS (List[Example]): Examples with new Docs, as from a corpus reader."""
    spaces = ([bool(token.whitespace_) for token in doc] for doc in docs)
    return [Example(Doc(doc.vocab, words=[t.text for t in doc], spaces=gaps), doc) for doc, gaps in zip(docs, spaces)]


def watch(nlp: Language) -> Clock:
    """RETURNS (Clock): A clock for the component elmo and the listener in the pipeline's tok2vec."""
    clock = Clock()
    elmo = nlp.get_pipe("elmo")
    elmo.update = clock.watch("elmo", elmo.update)  # type: ignore[attr-defined]
    for name in nlp.pipe_names:
        for listener in get_listeners(nlp.get_pipe(name).model) if name != "elmo" else []:
            listener._func = clock.watch("listener", listener._func)
    return clock


def run_epoch(nlp: Language, docs: List[Doc], optimizer: Any, clock: Clock, batch_docs: int) -> Dict[str, float]:
    """RETURNS (Dict[str, float]): Seconds per part, and in total."""
    clock.seconds.clear()
    started = time.perf_counter()
    for batch in minibatch(docs, batch_docs):
        nlp.update(make_examples(batch), drop=0.1, sgd=optimizer)
    seconds = time.perf_counter() - started
    return {**clock.seconds, "rest": seconds - sum(clock.seconds.values()), "all": seconds}


def print_row(results: List[Result]) -> None:
    """Print the last result, with headings before the first one."""
    if len(results) == 1:
        print("cache MB  epoch  all (s)  elmo (s)  listener (s)  rest (s)  elmo, of uncached")
    row = results[-1]
    uncached = [result["elmo"] for result in results if not result["cache_mb"]]
    share = f"{row['elmo'] * len(uncached) / sum(uncached):17.0%}" if uncached else ""
    parts = f"{row['all']:8.2f} {row['elmo']:9.2f} {row['listener']:13.2f} {row['rest']:9.2f}"
    print(f"{row['cache_mb']:8.0f} {row['epoch']:6d} {parts} {share}", flush=True)


if __name__ == "__main__":
    typer.run(main)
