"""An index of `lm-english`: tokens/s of the build, MB per million tokens, recall@10, time of queries, memory.

Queries are tokens of the index, of which neighbours are searched among all tokens, among the uses of the same word, and
among other words. Times are without the biLM, which reads the sentence of a query in a few milliseconds more.
"""

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
from corpus import default_shared
from vector_stores import read_sentences

from spacy_elmo import load_bilm
from spacy_elmo.analysis.index_build import IndexBuilder, find_documents, make_settings, open_for_writing
from spacy_elmo.analysis.index_replace import replace_index, start_replacement
from spacy_elmo.analysis.neighbors import NeighborIndex
from spacy_elmo.analysis.recall import check_recall, draw_vectors
from spacy_elmo.corpora.find import find_shards
from spacy_elmo.corpora.shards import Counts
from spacy_elmo.weights.identity import digest_bilm

BILM = "en_elmo_sm"


def build(text: Path, folder: Path) -> Dict[str, float]:
    """RETURNS (Dict[str, float]): Time of the two parts of a build."""
    bilm = load_bilm(BILM)
    named = {"name": BILM, "digest": digest_bilm(BILM)}
    settings = make_settings(bilm, **named, layer=bilm.config.n_layers, content_words="")
    new = start_replacement(folder)
    store = open_for_writing(new, settings)
    builder = IndexBuilder(store, bilm)
    start = time.perf_counter()
    builder.add(find_documents(find_shards(text), Counts()))
    added = time.perf_counter()
    builder.finish()
    finished = time.perf_counter()
    store.close()
    if new != folder:
        replace_index(folder, new)
    n_tokens = builder.n_read
    return {
        "tokens": n_tokens,
        "store_s": added - start,
        "search_s": finished - added,
        "tokens_per_s": n_tokens / (finished - start),
    }


def time_queries(index: NeighborIndex, n_queries: int) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Median and 95th percentile in milliseconds, by kind of query."""
    frequent = list(index.words)[: n_queries // 2] * 2
    kinds: Dict[str, List[Dict[str, Any]]] = {
        "any word": [{}] * n_queries,
        "same word": [{"word": word} for word in frequent],
        "other words": [{"exclude": word} for word in frequent],
    }
    found = {}
    for kind, choices in kinds.items():
        times = []
        for unit, choice in zip(draw_vectors(index, n_queries), choices):
            begin = time.perf_counter()
            index.query(unit, 10, **choice)
            times.append(1000 * (time.perf_counter() - begin))
        found[kind] = {
            "median_ms": round(float(np.median(times)), 2),
            "p95_ms": round(float(np.quantile(times, 0.95)), 2),
        }
    return found


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-tokens", type=int, default=1_000_000)
    parser.add_argument("--n-queries", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="keep the index here")
    parser.add_argument("--shared", type=Path, default=default_shared())
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        text, folder = Path(name) / "text.txt", arguments.folder or Path(name) / "index"
        sentences = read_sentences(arguments.shared / "data/lm-english/train-00.txt.gz", arguments.n_tokens)
        text.write_text("".join(f"{' '.join(words)}\n" for words in sentences), encoding="utf8")
        record: Dict[str, Any] = {key: round(value, 1) for key, value in build(text, folder).items()}
        size = sum(file.stat().st_size for file in folder.iterdir())
        record["mb_per_million_tokens"] = round(size / record["tokens"], 1)
        record["build_peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        with NeighborIndex.open(folder) as index:
            record["recall@10"] = round(check_recall(index, n_queries=arguments.n_queries).recall, 4)
            record["query"] = time_queries(index, arguments.n_queries)
        print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
