"""Every format that is read: size on disk, time to load, tokens/s of `BiLM.embed`, and its ratio to the native format.

    python benchmarks/formats.py
    python benchmarks/formats.py --rounds 7

All biLMs have the sizes of `en_elmo_sm`. Those that can come from it are it; models of ELMoForManyLangs have random
weights, which do not change the speed. Rounds of all formats take turns; times are those of the process on the CPU.
"""

import statistics
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any, Callable, Dict, List

import h5py
import numpy as np
import srsly
import torch
import typer
from corpus import default_shared, flatten, read_documents

from spacy_elmo import load_bilm, save_bilm

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from reference.seeded_manylangs import make_architecture, write_manylangs, write_zip  # noqa: E402
from reference.tensorflow_files import write_checkpoint, write_module  # noqa: E402

NAME = "en_elmo_sm"
MIX = {"weights": np.zeros(3, dtype="float32"), "scaling": np.array(1.0, dtype="float32")}


def main(
    rounds: int = typer.Option(5, "--rounds", "-r", help="Rounds; medians are printed."),
    n_sentences: int = typer.Option(400, "--sentences", "-n", help="Sentences of UD EWT dev."),
) -> None:
    """Write each format into a temporary folder, and measure it."""
    torch.set_num_threads(1)
    sentences = flatten(read_documents(default_shared(), None))[:n_sentences]
    with tempfile.TemporaryDirectory() as folder:
        paths = write_all(Path(folder))
        loading: Dict[str, List[float]] = {name: [] for name in paths}
        embedding: Dict[str, List[float]] = {name: [] for name in paths}
        bilms = {name: load_bilm(path) for name, path in paths.items()}
        for number in range(rounds + 1):
            for name, path in paths.items():
                seconds = [
                    measure(lambda path=path: load_bilm(path)),
                    measure(lambda b=bilms[name]: b.embed(sentences)),
                ]
                if number:  # the first round fills the caches of files and words
                    loading[name].append(seconds[0])
                    embedding[name].append(seconds[1])
        sizes = {name: size_mb(path) for name, path in paths.items()}
    print_table(sizes, loading, embedding, sum(map(len, sentences)))


def write_all(folder: Path) -> Dict[str, Path]:
    """RETURNS (Dict[str, Path]): What `load_bilm` takes, by the name of the format."""
    bilm = load_bilm(NAME)
    bilm.head = None
    paths = {"native": folder / "native", "native, int8": folder / "int8"}
    save_bilm(bilm, paths["native"])
    save_bilm(bilm, paths["native, int8"], dtype="int8")
    paths["bilm-tf HDF5"] = folder / "hdf5"
    save_bilm(bilm, paths["bilm-tf HDF5"], format="bilm-tf")
    paths["NLPL zip"] = write_nlpl(folder / "nlpl.zip", paths["bilm-tf HDF5"])
    save_bilm(bilm, folder / "allennlp", format="allennlp")
    paths["AllenNLP archive"] = folder / "allennlp" / "model.tar.gz"
    options, arrays = read_hdf5(paths["bilm-tf HDF5"])
    paths["TensorFlow checkpoint"] = write_checkpoint(folder / "checkpoint", options, arrays)
    paths["TF-Hub module"] = write_module(folder / "hub", arrays, MIX)
    return {**paths, **write_all_manylangs(folder, options)}


def write_nlpl(path: Path, folder: Path) -> Path:
    """RETURNS (Path): A zip with options.json and model.hdf5."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in folder.iterdir():
            archive.write(file, "model.hdf5" if file.suffix == ".hdf5" else file.name)
    return path


def read_hdf5(folder: Path) -> Any:
    """RETURNS (Tuple[dict, Dict[str, Array]]): The options and all datasets."""
    arrays: Dict[str, Any] = {}

    def take(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[()]

    (weights,) = folder.glob("*.hdf5")
    with h5py.File(weights) as file:
        file.visititems(take)
    return srsly.read_json(folder / "options.json"), arrays


def write_all_manylangs(folder: Path, options: Dict[str, Any]) -> Dict[str, Path]:
    """RETURNS (Dict[str, Path]): Models with both encoders of ELMoForManyLangs, as folder and zip."""
    lstm, cnn = options["lstm"], options["char_cnn"]
    embedder = {"filters": cnn["filters"], "n_highway": cnn["n_highway"], "word_dim": 100, "char_dim": 16}
    sizes = {"projection_dim": lstm["projection_dim"], "dim": lstm["dim"], "n_layers": lstm["n_layers"]}
    embedder["max_characters_per_token"] = 50
    both = make_architecture(encoder=sizes, token_embedder=embedder)
    plain = make_architecture(encoder={**sizes, "name": "lstm"}, token_embedder=embedder)
    write_manylangs(folder / "manylangs", both)
    write_manylangs(folder / "manylangs_lstm", plain)
    return {
        "ELMoForManyLangs": folder / "manylangs",
        "ELMoForManyLangs zip": write_zip(folder / "manylangs.zip", folder / "manylangs"),
        "ELMoForManyLangs, encoder lstm": folder / "manylangs_lstm",
    }


def measure(call: Callable[[], Any]) -> float:
    """RETURNS (float): Seconds of the process on the CPU."""
    started = time.process_time()
    call()
    return time.process_time() - started


def size_mb(path: Path) -> float:
    """RETURNS (float): MB of a file, or of all files in a folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / 1e6


def print_table(
    sizes: Dict[str, float], loading: Dict[str, List[float]], embedding: Dict[str, List[float]], n_tokens: int
) -> None:
    """Print a row of Markdown for each format."""
    print("| format | MB | load, s | tokens/s | ratio |")
    print("| --- | ---: | ---: | ---: | ---: |")
    base = statistics.median(embedding["native"])
    for name, size in sizes.items():
        seconds = statistics.median(embedding[name])
        load = statistics.median(loading[name])
        print(f"| {name} | {size:.1f} | {load:.2f} | {n_tokens / seconds:,.0f} | {base / seconds:.2f} |")


if __name__ == "__main__":
    typer.run(main)
