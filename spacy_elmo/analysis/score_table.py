"""Scores with and without ELMo over seeds: means, standard deviations and differences."""

from dataclasses import dataclass
from statistics import mean, stdev
from typing import Dict, List, Optional, Sequence

from .training_output import Run

# Names for people, the most important first; other scores keep their names.
TITLES: Dict[str, str] = {
    "ents_f": "Entities F1",
    "ents_p": "Entities precision",
    "ents_r": "Entities recall",
    "tag_acc": "Tag accuracy",
    "pos_acc": "UPOS accuracy",
    "morph_acc": "Morphology accuracy",
    "lemma_acc": "Lemma accuracy",
    "dep_uas": "UAS",
    "dep_las": "LAS",
    "sents_f": "Sentences F1",
    "cats_score": "Text categories",
}
# Equal to the accuracy, with one label per token.
REPEATED = ("tag_micro_", "pos_micro_", "morph_micro_")


@dataclass(frozen=True)
class Spread:
    """A score over seeds, from 0 to 1.

    mean (float): Over all seeds.
    std (Optional[float]): Sample standard deviation, None with one seed.
    n (int): Number of seeds.
    """

    mean: float
    std: Optional[float]
    n: int


@dataclass(frozen=True)
class ScoreRow:
    """One score.

    name (str): For people.
    ours (Optional[Spread]), theirs (Optional[Spread]): Of the training and of the baseline; None if not measured.
    """

    name: str
    ours: Optional[Spread]
    theirs: Optional[Spread]

    @property
    def difference(self) -> Optional[float]:
        """RETURNS (Optional[float]): Of the means."""
        return None if self.ours is None or self.theirs is None else self.ours.mean - self.theirs.mean


def make_score_rows(ours: Sequence[Run], theirs: Sequence[Run]) -> List[ScoreRow]:
    """ours (Sequence[Run]), theirs (Sequence[Run]): The seeds of the training and of the baseline.
    RETURNS (List[ScoreRow]): The scores that one of them has, known ones first.
    """
    names = {name for run in (*ours, *theirs) for name in run.scores if not name.startswith(REPEATED)}
    ordered = [*(name for name in TITLES if name in names), *sorted(names - TITLES.keys())]
    return [ScoreRow(TITLES.get(name, name), _spread(name, ours), _spread(name, theirs)) for name in ordered]


def _spread(name: str, runs: Sequence[Run]) -> Optional[Spread]:
    values = [run.scores[name] for run in runs if name in run.scores]
    if not values:
        return None
    return Spread(mean(values), stdev(values) if len(values) > 1 else None, len(values))
