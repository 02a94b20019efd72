"""All layers of AllenNLP 2.10.1 for some sentences, each with a zero state. Runs under Python 3.8.

Started by `allennlp_export.py` with the interpreter that the user names.
"""

import json
import sys
from pathlib import Path
from typing import List

import numpy as np
import torch
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids


class Reader:
    """A biLM without mixing.

    folder (Path): `options.json` and `weights.hdf5`.
    """

    def __init__(self, folder: Path) -> None:
        self.bilm = _ElmoBiLm(str(folder / "options.json"), str(folder / "weights.hdf5"))
        self.bilm.eval()

    @torch.no_grad()
    def layers(self, sentence: List[str]) -> np.ndarray:
        """RETURNS (np.ndarray): Shape (L+1, n, D), without BOS and EOS."""
        self.bilm._elmo_lstm.reset_states()  # else the state is carried from sentence to sentence
        activations = self.bilm(batch_to_ids([sentence]))["activations"]
        return torch.cat(activations)[:, 1:-1].numpy()


def main(folder: str, sentences_path: str, output_path: str) -> None:
    """Write an array for each sentence."""
    torch.set_num_threads(1)
    reader = Reader(Path(folder))
    sentences = json.loads(Path(sentences_path).read_text(encoding="utf8"))
    np.savez(output_path, *[reader.layers(sentence) for sentence in sentences])


if __name__ == "__main__":
    main(*sys.argv[1:])
