"""Call `elmo pretrain` in a process of its own."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

from messages import Messages
from wasabi import msg


def call_pretrain(config: Path, run: Path, settings: Dict[str, Any]) -> None:
    """config (Path): Config of `elmo pretrain`.
    run (Path): Folder of the run.
    settings (Dict[str, Any]): Overrides of the config, by their dotted names.
    RAISES (ValueError): P051 with the end of what it printed.
    """
    options = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "spacy_elmo", "pretrain", str(config), str(run), *options]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf8")
    if done.returncode:
        raise ValueError(Messages.P051.format(command="elmo pretrain", output=(done.stdout + done.stderr)[-1000:]))
    msg.text(done.stdout)
