"""Results in files: their folder, and how they are read."""

from pathlib import Path
from typing import Any, Dict

import srsly

from spacy_elmo.weights.contents import hash_weights

EXPERIMENTS_DIR = Path(__file__).resolve().parents[1]
RESULTS_DIR = EXPERIMENTS_DIR / "results"
TRAINING_DIR = EXPERIMENTS_DIR / "training"


def read_result(path: Path) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): A stored result. RAISES (ValueError): For a file that is none of paper.py."""
    try:
        found: Dict[str, Any] = srsly.read_json(path)
        return {**found, "settings": dict(found["settings"]), "test": dict(found["test"])}
    except (ValueError, KeyError, TypeError) as e:
        raise ValueError(f"'{path}' is not a result of paper.py: {e}. Remove the file to train again.") from e


def is_finished(path: Path, bilm: str) -> bool:
    """RETURNS (bool): Whether a file has the scores of these weights; those of older ones are replaced.
    RAISES (ValueError): For the scores of a biLM of another name, and for another file.
    """
    if not path.exists():
        return False
    try:
        known = dict(srsly.read_json(path))
    except (ValueError, TypeError) as e:
        raise ValueError(f"'{path}' does not have scores of a biLM: {e}. Give another file, or remove it.") from e
    if known.get("bilm") != Path(bilm).name:
        raise ValueError(
            f"'{path}' has the scores of the biLM '{known.get('bilm')}', not '{Path(bilm).name}'. Give another file, "
            "or remove it."
        )
    return bool(known.get("bilm_digest") == hash_weights(bilm))
