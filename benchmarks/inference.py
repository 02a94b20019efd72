"""Speed of the biLM compared with AllenNLP, transformers and others, on the same text and number of threads.

python benchmarks/inference.py --threads 2 --json out.json [--allennlp-python PATH] [--curated-python PATH]
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional

import typer
from corpus import default_shared, flatten, read_documents
from flops import count_flops, count_weight_bytes
from rounds import BATCHES, PACKAGED, Bench, Failed, Places, make_texts
from tables import print_latencies, print_rates, print_split

SIZES = ("small", "medium", "original", PACKAGED)
SHAPES = ("batch", "short", "long", "split")


def main(
    # fmt: off
    size: List[str] = typer.Option(list(SIZES), "--size", "-s", help=f"Sizes of the biLM: {', '.join(SIZES)}"),
    shape: List[str] = typer.Option(list(SHAPES), "--shape", "-p", help=f"Shapes of the workload: {', '.join(SHAPES)}"),
    threads: int = typer.Option(2, "--threads", "-t", help="Threads of each system"),
    repeats: int = typer.Option(5, "--repeats", "-r", help="Interleaved rounds over all systems"),
    max_sentences: Optional[int] = typer.Option(
        None, "--max-sentences", "-n", help="Sentences to read (default: all of UD EWT dev)"
    ),
    search_sentences: int = typer.Option(
        1024, "--search-sentences", help="Sentences for the search for the best batch size of each system"
    ),
    latency_sentences: int = typer.Option(200, "--latency-sentences", "-l", help="Sentences to read one at a time"),
    long_tokens: int = typer.Option(50_000, "--long-tokens", help="Tokens of the long Doc"),
    allennlp_python: Optional[Path] = typer.Option(
        None, "--allennlp-python", "-a", help="Python 3.8 with AllenNLP 2.10.1", exists=True
    ),
    curated_python: Optional[Path] = typer.Option(
        None, "--curated-python", "-c", help="Python with spacy-curated-transformers 0.3, tokenizers", exists=True
    ),
    skip: List[str] = typer.Option([], "--skip", help="Systems to leave out, by their names in the tables"),
    weights: Optional[Path] = typer.Option(
        None, "--weights", "-w", help="Folder to keep weights and vocabularies in (default: a temporary one)"
    ),
    shared: Path = typer.Option(default_shared(), "--shared", "-S", help="Folder with `data` and `tools`", exists=True),
    json_path: Optional[Path] = typer.Option(None, "--json", "-j", help="File for the raw numbers"),
    verbose: bool = typer.Option(False, "--verbose", "-V", help="Print every measurement"),
    # fmt: on
) -> None:
    """Print tokens/s, latencies, shares of the hardware limits, ratios to the peers, and the time per part."""
    for chosen, known in ((size, SIZES), (shape, SHAPES), (skip, tuple(BATCHES))):
        if not set(chosen) <= set(known):
            raise typer.BadParameter(f"{', '.join(set(chosen) - set(known))}: should be of {', '.join(known)}")
    documents = read_documents(shared, max_sentences)
    texts = make_texts(
        documents, search_sentences=search_sentences, short_sentences=latency_sentences, long_tokens=long_tokens
    )
    everything: Dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        places = Places(weights or Path(name), shared, allennlp_python, curated_python)
        sizes = {one: count_weight_bytes(places.weights(one)) for one in size}
        step_bytes = {one: found[0] for one, found in sizes.items()}
        bench = Bench(places, step_bytes, texts, threads=threads, skipped=skip, verbose=verbose)
        everything.update({one: dict(zip(("step_bytes", "input_bytes"), found)) for one, found in sizes.items()})
        for kind in shape:
            text = flatten(texts["batch" if kind == "split" else kind])
            try:
                results = bench.rounds(kind, repeats)
            except Failed as error:
                print(error, file=sys.stderr)
                raise typer.Exit(1) from None
            for one, found in results.items():
                flops = count_flops(places.weights(one), text)
                everything[one][kind] = {"flops_per_token": flops, "results": found}
                title = f"{one}, {_describe(kind, texts)}, {threads} thread(s), medians of {repeats}"
                if kind == "split":
                    print_split(title, found)
                elif kind == "short":
                    print_latencies(title, found, *sizes[one])
                else:
                    print_rates(title, found, flops, is_one_doc=kind == "long")
            if json_path is not None:
                json_path.write_text(json.dumps(everything, indent=1), encoding="utf8")


def _describe(shape: str, texts: Dict[str, Any]) -> str:
    """RETURNS (str): A description of the text."""
    documents = texts["batch" if shape == "split" else shape]
    n_tokens, n_sentences = sum(map(len, flatten(documents))), len(flatten(documents))
    words = {
        "batch": f"batch: {n_tokens} tokens of UD EWT dev in {len(documents)} Docs",
        "short": f"one short Doc at a time: {n_sentences} sentences of {n_tokens / n_sentences:.1f} tokens",
        "long": f"one long Doc: {n_tokens} tokens of UD EWT dev",
        "split": f"split of the time of nlp.pipe: {n_tokens} tokens in {len(documents)} Docs",
    }
    return words[shape]


if __name__ == "__main__":
    typer.run(main)
