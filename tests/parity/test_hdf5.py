"""`elmo embed --to hdf5` against vectors that AllenNLP stored."""

import json
from pathlib import Path

import h5py
import numpy as np
from parity.cases import LIMIT, largest_difference, read_json
from typer.testing import CliRunner

from spacy_elmo.cli._app import app


def test_top_layer_equals_that_of_allennlp(shared_data: Path, tmp_path: Path) -> None:
    """The first text of each row of the batch: later ones have the state of the texts before them there."""
    folder = shared_data / "elmo-fixtures" / "allennlp"
    texts = [column[0] for column in read_json(folder / "sentences.json")]
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf8")
    paths = (folder / "lm_weights.hdf5", tmp_path / "in.txt", tmp_path / "out.hdf5")
    options = ("--store", "top", "--options", folder / "options.json")
    assert CliRunner().invoke(app, ["embed", *map(str, (*paths, *options))]).exit_code == 0
    with h5py.File(tmp_path / "out.hdf5", "r") as found:
        assert json.loads(found["sentence_to_index"][0]) == {text: str(i) for i, text in enumerate(texts)}
        for i in range(len(texts)):
            with h5py.File(folder / f"lm_embeddings_{i}.hdf5", "r") as truth:
                wanted = np.concatenate(list(truth["0"][()]), axis=1)
            assert largest_difference(found[str(i)][()], wanted) <= LIMIT
