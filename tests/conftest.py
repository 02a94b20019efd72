"""Options and fixtures that every ring's tests share."""

import os
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent
SHARED_VARIABLE = "SPACY_ELMO_SHARED"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Slow tests and those that need a GPU run only when asked for."""
    parser.addoption("--slow", action="store_true", help="Run the tests that take over two seconds, too")
    parser.addoption("--gpu", action="store_true", help="Run the tests that need a GPU, too")


def pytest_configure(config: pytest.Config) -> None:
    """A mistyped directory must not turn the parity tests into skips."""
    given = os.environ.get(SHARED_VARIABLE)
    if given and not (ROOT / given).is_dir():
        raise pytest.UsageError(f"{SHARED_VARIABLE} is set to '{given}', which is not a directory")
    # Threads change no result here, and for the small weights of tests they are slower than one.
    torch.set_num_threads(1)


def pytest_collection_modifyitems(config: pytest.Config, items: "list[pytest.Item]") -> None:
    """Skip what was not asked for, and mark everything in tests/parity."""
    for item in items:
        if (ROOT / "tests" / "parity") in item.path.parents:
            item.add_marker("parity")
        for name in ("slow", "gpu"):
            if name in item.keywords and not config.getoption(f"--{name}"):
                item.add_marker(pytest.mark.skip(reason=f"needs --{name}"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Directory of ground truth and corpora that lies beside the checkout; the test is skipped without it."""
    path = (ROOT / os.environ.get(SHARED_VARIABLE, "../shared")).resolve() / "data"
    if not path.is_dir():
        pytest.skip(f"no shared data: set {SHARED_VARIABLE} (looked at ../shared)")
    return path
