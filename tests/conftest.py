"""Options and fixtures that the tests of all packages share."""

import functools
import os
from pathlib import Path
from types import SimpleNamespace

import catalogue
import pytest
import torch
from spacy.lang.en import EnglishDefaults

ROOT = Path(__file__).parent.parent
SHARED_VARIABLE = "SPACY_ELMO_SHARED"
# The exceptions that spaCy's English tokenizer has in tests; add what a test needs, or use `all_english_exceptions`.
ALL_ENGLISH_EXCEPTIONS = EnglishDefaults.tokenizer_exceptions
ENGLISH_EXCEPTIONS = ("can't", "didn't", "don't", "doesn't", "isn't", "it's", "It's", "I'm", "Dr.", "Mr.", "Mrs.")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Slow tests and those that need a GPU run only when asked for; those of one issue can be asked for."""
    parser.addoption("--issue", type=int, help="Run only the tests that guard against the bug of this issue")
    parser.addoption("--slow", action="store_true", help="Run the tests that take over two seconds, too")
    parser.addoption("--gpu", action="store_true", help="Run the tests that need a GPU, too")


def pytest_configure(config: pytest.Config) -> None:
    """A mistyped directory must not turn the parity tests into skips."""
    given = os.environ.get(SHARED_VARIABLE)
    if given and not (ROOT / given).is_dir():
        raise pytest.UsageError(f"{SHARED_VARIABLE} is set to '{given}', which is not a directory")
    # Threads change no result here, and for the small weights of tests they are slower than one.
    torch.set_num_threads(1)
    _make_pipelines_cheap()


def _make_pipelines_cheap() -> None:
    """Spend less on what spaCy does whenever a test makes or loads a pipeline; it is the same for all tests."""
    # All 1,347 take 0.1 s, most of the time of such a test.
    EnglishDefaults.tokenizer_exceptions = {word: ALL_ENGLISH_EXCEPTIONS[word] for word in ENGLISH_EXCEPTIONS}
    # Every look-up of a registered name filters the entry points of all installed packages.
    select = functools.cache(catalogue.AVAILABLE_ENTRY_POINTS.select)
    catalogue.AVAILABLE_ENTRY_POINTS = SimpleNamespace(select=select)


def pytest_make_parametrize_id(val: object) -> "str | None":
    """Name bytes by their number: gzip writes the time into them, and all workers must collect the same names."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None


def pytest_collection_modifyitems(config: pytest.Config, items: "list[pytest.Item]") -> None:
    """Skip what was not asked for, and mark everything in tests/parity and what reads shared data."""
    if issue := config.getoption("--issue"):
        items[:] = [item for item in items if any(issue in mark.args for mark in item.iter_markers("issue"))]
        config.option.slow = True
        if not items:
            raise pytest.UsageError(f"no test has the marker issue({issue})")
    for item in items:
        if (ROOT / "tests" / "parity") in item.path.parents:
            item.add_marker("parity")
        if "shared_data" in getattr(item, "fixturenames", ()):
            item.add_marker("shared")
        for name in ("slow", "gpu"):
            if item.get_closest_marker(name) is not None and not config.getoption(f"--{name}"):
                item.add_marker(pytest.mark.skip(reason=f"needs --{name}"))
        if item.get_closest_marker("gpu") is not None and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="torch sees no GPU"))


@pytest.fixture
def all_english_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """English is tokenized as without `_make_pipelines_cheap`."""
    monkeypatch.setattr(EnglishDefaults, "tokenizer_exceptions", ALL_ENGLISH_EXCEPTIONS)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Directory of ground truth and corpora that lies beside the checkout; the test is skipped without it."""
    path = (ROOT / os.environ.get(SHARED_VARIABLE, "../shared")).resolve() / "data"
    if not path.is_dir():
        pytest.skip(f"no shared data: set {SHARED_VARIABLE} (looked at ../shared)")
    return path
