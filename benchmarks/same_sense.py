"""Same sense or not: accuracy on pairs of uses from SemCor, for each layer.

Pairs of the training part fit the threshold, those of the development part choose the layer, and those of the test part
give the figures, with 95 % intervals from drawing lemmas. Documents of the parts differ; many lemmas are in several of
them. Both answers are equally frequent within each lemma, so that guessing, and every answer that depends on the lemma
only, gives 50 %. `--also` scores other files with the same thresholds.
"""

import json
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import typer
from corpus import PACKAGED, SHARED

from spacy_elmo import load_bilm
from spacy_elmo.analysis import bootstrap_accuracy, read_senses
from spacy_elmo.analysis.same_sense import Cosines, calibrate, make_pairs, pair_cosines
from spacy_elmo.weights.identity import digest_bilm


def read_part(bilm: Any, path: Path, per_lemma: int) -> Tuple[Cosines, List[bool], List[str], List[bool]]:
    """RETURNS (Tuple[Cosines, List[bool], List[str], List[bool]]): Cosines (L+2, N); for each pair its answer, its
    lemma, and whether both words are spelled alike.
    """
    sentences = list(read_senses(path))
    pairs = make_pairs(sentences, per_lemma=per_lemma)
    cosines = pair_cosines(bilm, [sentence.tokens for sentence in sentences], pairs)
    lemmas = []
    for pair in pairs:
        number, position = pair.first
        lemmas.append(next(f"{use.lemma} {use.pos}" for use in sentences[number].uses if use.position == position))
    words = [[sentences[number].tokens[place].lower() for number, place in pair[:2]] for pair in pairs]
    return cosines, [pair.is_same for pair in pairs], lemmas, [first == second for first, second in words]


def main(
    # fmt: off
    weights: str = typer.Option(PACKAGED, "--bilm", "-b", help="A packaged biLM or a path."),
    per_lemma: int = typer.Option(4, "--per-lemma", "-n", help="Maximum number of pairs of a lemma for each answer."),
    also: List[Path] = typer.Option(
        [], "--also", "-a", help="Another file of sentences with senses, .jsonl.", exists=True
    ),
    shared: Path = SHARED,
    # fmt: on
) -> None:
    """Print one JSON object."""
    bilm = load_bilm(weights)
    folder = shared / "data/wsd"
    parts = {
        part: read_part(bilm, folder / f"semcor-noad-{part}.jsonl.gz", per_lemma) for part in ("train", "dev", "test")
    }
    parts.update({path.name: read_part(bilm, path, per_lemma) for path in also})
    names = [*range(bilm.config.n_layers + 1), "mean"]
    fitted = [calibrate(cosines, parts["train"][1], name) for name, cosines in zip(names, parts["train"][0])]
    record: Dict[str, Any] = {"digest": digest_bilm(weights), "pairs": {}, "layers": {}}
    for part, (cosines, answers, lemmas, alike) in parts.items():
        record["pairs"][part] = len(answers)
        for calibration, row in zip(fitted, cosines):
            correct = (row >= calibration.threshold) == np.asarray(answers)
            score = bootstrap_accuracy(correct, lemmas)
            found = {"accuracy": score.value, "low": score.low, "high": score.high}
            entry = record["layers"].setdefault(str(calibration.layer), {"calibration": list(calibration)})
            entry[part] = {key: round(value, 4) for key, value in found.items()}
        spelled = bootstrap_accuracy(np.asarray(alike) == np.asarray(answers), lemmas)
        numbers = [round(value, 4) for value in (spelled.value, spelled.low, spelled.high)]
        record.setdefault("spelled_alike", {})[part] = numbers
    record["best_on_dev"] = max(record["layers"], key=lambda name: record["layers"][name]["dev"]["accuracy"])
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    typer.run(main)
