"""A small text, and one thread where results are compared bit by bit."""

import pytest
import torch
from pretraining.small_run import write_text


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path / "text.txt")


@pytest.fixture
def one_thread():
    """As in the processes that are killed: another number of threads adds up in another order."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(n_threads)
