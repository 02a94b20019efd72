"""Force the path of a plan in a test."""

from spacy_elmo.inference import dispatch, runner
from spacy_elmo.inference.dispatch import Path

# Paths of large batches: with joint products (small layers) and without.
LARGE_BATCHES = {"as chosen": None, "joint": dispatch.JOINT_WEIGHTS, "separate": 0}


def force_path(monkeypatch, path):
    """Every plan takes a path, which must be one that it can take."""
    monkeypatch.setattr(runner, "choose_path", lambda *args, **kwargs: path)


def force_large_batches(monkeypatch, name):
    """The path of large batches for every plan, upper layers with or without joint products; or what is chosen."""
    joint_weights = LARGE_BATCHES[name]
    if joint_weights is not None:
        monkeypatch.setattr(dispatch, "JOINT_WEIGHTS", joint_weights)
        force_path(monkeypatch, Path.PARALLEL)
