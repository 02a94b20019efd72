"""Questions asked of vectors, biLMs and pipelines, and the pictures of their answers."""

from ..corpora.labelled import SenseSentence, SenseUse, read_senses
from ..inference.substitutes import Substitute, find_substitutes
from ..weights.contents import compare_bilms
from .answers import Answer, DocAnswers, read_answers
from .intervals import Score, bootstrap_accuracy
from .labelled_docs import LabelledDocs, label_senses, label_tokens
from .layer_weight_plots import draw_course, draw_layer_weights
from .neighbors import NeighborIndex
from .plots import draw_perplexities
from .probes import draw_probe, majority_baseline, probe_layers, word_baseline
from .report import make_report
from .sense_map import cluster_uses, draw_map
from .senses import SenseVectors, score_senses

__all__ = [
    "Answer",
    "DocAnswers",
    "LabelledDocs",
    "NeighborIndex",
    "Score",
    "SenseSentence",
    "SenseUse",
    "SenseVectors",
    "Substitute",
    "bootstrap_accuracy",
    "cluster_uses",
    "compare_bilms",
    "draw_course",
    "draw_layer_weights",
    "draw_map",
    "draw_perplexities",
    "draw_probe",
    "find_substitutes",
    "label_senses",
    "label_tokens",
    "majority_baseline",
    "make_report",
    "probe_layers",
    "read_answers",
    "read_senses",
    "score_senses",
    "word_baseline",
]
