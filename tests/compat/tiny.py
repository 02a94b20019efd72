"""A tiny biLM with random weights in the files of bilm-tf, and a few sentences."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.network import BiLMNetwork
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.weights import save_bilm

CONFIG = BiLMConfig.from_dict(
    {
        "char_cnn": {"embedding_width": 4, "filters": [[1, 8], [2, 8], [3, 4]], "n_highway": 2},
        "n_layers": 2,
        "cell_width": 16,
        "projection_width": 8,
        "cell_clip": 0.5,
        "projection_clip": 0.3,
    }
)
N_LAYERS, WIDTH = 3, 16
BATCHES = [
    [["She", "sat", "on", "the", "bank", "."], [], ["\N{WATER WAVE}", "a" * 60]],
    [["the", "bank"], ["She", "sat"]],
    [["one"], ["two", "words"], ["three", "more", "words"], ["four"]],
]
VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "bank", "sat"]


class Files(NamedTuple):
    """Paths of the files of a biLM, and the biLM itself."""

    options: Path
    weights: Path
    vocab: Path
    bilm: BiLM


def make_bilm(config: BiLMConfig = CONFIG) -> BiLM:
    """Gates are opened wide, so that states matter and clips cut."""
    torch.manual_seed(0)
    network = BiLMNetwork(config)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "encoder" in name:
                parameter.copy_(torch.randn_like(parameter) * 0.7)
            elif name.endswith("bias"):
                parameter.copy_(torch.randn_like(parameter) * 0.3)
    return BiLM(network)


def save_files(bilm: BiLM, folder: Path) -> Files:
    save_bilm(bilm, folder / "bilm", format="bilm-tf")
    (weights,) = (folder / "bilm").glob("*.hdf5")
    vocab = folder / "vocab.txt"
    vocab.write_text("".join(f"{word}\n" for word in VOCABULARY), encoding="utf8")
    return Files(folder / "bilm" / "options.json", weights, vocab, bilm)


def assert_close(found: Any, expected: Any) -> None:
    """Compare tensors, up to what the order of sums changes."""
    torch.testing.assert_close(torch.as_tensor(found), torch.as_tensor(expected), atol=1e-5, rtol=0.0)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Written once; no test changes them."""
    return save_files(make_bilm(), tmp_path_factory.mktemp("compat"))
