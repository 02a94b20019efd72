"""What oneDNN keeps."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("given, kept", [({}, "16"), ({"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "99"}, "99")])
def test_what_onednn_keeps_is_bounded_unless_the_user_says_otherwise(given, kept):
    """It would keep something for each of a thousand shapes, and a text has no end of them."""
    names = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
    environment = {name: value for name, value in os.environ.items() if name not in names} | given
    code = f"import os, spacy_elmo.bilm.model, spacy_elmo.inference.lstm; print(*[os.environ[n] for n in {names}])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert found.stdout.split() == [kept, "16"]
