"""Workers of `nlp.pipe(n_process=2)`: how many threads each has, and what is made before they are."""

import os
from typing import List

import torch
from spacy.tokens import Doc
from thinc.api import Model

from ..encoding.encoder import MAX_LANES
from ..encoding.fork import share_threads as share_threads
from .elmo_model import fill, get_bilm, get_settings
from .types import ElmoBatch

WARM_UPS = ([["."]], [["."]] * MAX_LANES)  # a sequence by itself and many together: all ways to compute, all weights


def prepare(model: Model[List[Doc], ElmoBatch]) -> None:
    """Make all that is derived from the weights, the packaged ones if there are none yet.

    Forked workers then share it: what they make themselves, each of them has. The rearranged weights are larger than
    the weights.
    model (Model): An ELMo model.
    """
    bilm, settings = fill(model), get_settings(model)
    for runs in WARM_UPS:
        bilm.encode(runs, state=settings.state)


def available_cores() -> int:
    """RETURNS (int): Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_process_is_enough(model: Model[List[Doc], ElmoBatch]) -> bool:
    """model (Model): An ELMo model.
    RETURNS (bool): Whether this process keeps all its cores busy with it, a direction of the biLM on each.
    """
    bilm = get_bilm(model)  # none where its loader has not been called, which is for the component to say
    if bilm is None:
        return False
    n_directions = bilm.config.n_directions
    is_busy = available_cores() == n_directions <= torch.get_num_threads()
    return bilm.device.type == "cpu" and n_directions > 1 and is_busy


def threads_of_workers(n_process: int) -> int:
    """n_process (int): Number of workers.
    RETURNS (int): Threads for each: its share of the cores, and no more than this process has itself.
    """
    return max(1, min(torch.get_num_threads(), available_cores() // n_process))


def use_threads(n_threads: int) -> None:
    """n_threads (int): Threads of this process, a worker that was not forked."""
    torch.set_num_threads(n_threads)
