"""A benchmark as a test: threads that share a biLM."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.issue(39)
def test_threads_share_a_bilm_and_a_pipeline(shared_data):
    """Half a minute, or SPACY_ELMO_SOAK minutes: no wrong vector, and memory does not grow."""
    minutes = os.environ.get("SPACY_ELMO_SOAK", "0.5")
    script = Path(__file__).parents[1] / "benchmarks" / "serving.py"
    command = [sys.executable, str(script), "--soak", minutes, "--threads", "1", "--shared", str(shared_data.parent)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and " 0 wrong vectors" in done.stdout, done.stdout + done.stderr
