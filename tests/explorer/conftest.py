"""The explorer with the packaged biLM and with a tiny one, and a headless Chromium for the tests of the page."""

import os
import shutil

import pytest
from explorer.serving import Client, running
from explorer.stub_index import StubIndex
from nn.tiny import make_language_model

from spacy_elmo import load_bilm
from spacy_elmo.explorer.views import Explorer
from spacy_elmo.pipeline.layer_weights import TaskMix

WORDS = ["<S>", "</S>", "<UNK>", "the", "He", "sat", "on", "bank", "of", "river", "."]
BROWSER_OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
BROWSER_VARIABLE = "SPACY_ELMO_CHROMIUM"
BROWSER_NAMES = ("chromium", "chromium-browser", "google-chrome")
MIX = TaskMix("ner", 1, (0.1, 0.7, 0.2), (-1.0, 0.95, -0.31), 2.5)


@pytest.fixture(scope="session")
def tiny():
    return make_language_model(WORDS)


@pytest.fixture(scope="session")
def explorer(tiny):
    return Explorer(tiny, "tiny", index=StubIndex(), mixes=[MIX])


@pytest.fixture(scope="session")
def client(explorer):
    with running(explorer) as address:
        yield Client(address)


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium, driven by Playwright; the test is skipped without either."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no Playwright: `pip install playwright`")
    found = [os.environ.get(BROWSER_VARIABLE), *map(shutil.which, BROWSER_NAMES)]
    path = next((name for name in found if name), None)
    if path is None:
        pytest.skip(f"no Chromium: set {BROWSER_VARIABLE} (looked for {', '.join(BROWSER_NAMES)})")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=BROWSER_OPTIONS)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def packaged():
    """Address of an explorer with the packaged biLM, the stub index and a mix."""
    name = "en_elmo_sm"
    with running(Explorer(load_bilm(name), name, index=StubIndex(), mixes=[MIX])) as address:
        yield address
