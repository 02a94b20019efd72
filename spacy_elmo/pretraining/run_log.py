"""The log of a run: `log.jsonl`, and TensorBoard if it is installed."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any, Dict, List, Optional

from .._compat import has_tensorboard
from ..errors import Warnings
from .run_folder import LOG, TENSORBOARD


class RunLog:
    """Writes one line per report.

    output (Path): Folder of the run.
    n_bytes (int): Length of the log at the checkpoint a run resumes from; the rest of the file is removed.
    step (int): Updates before the resume, for TensorBoard.
    """

    def __init__(self, output: Path, *, n_bytes: int = 0, step: int = 0) -> None:
        self.path = output / LOG
        self.warnings: List[str] = []
        self._cut(n_bytes)
        self._board: Optional[Any] = None
        if has_tensorboard:
            writer = import_module("torch.utils.tensorboard").SummaryWriter
            self._board = writer(str(output / TENSORBOARD), purge_step=step + 1)

    def _cut(self, n_bytes: int) -> None:
        """Truncate the log to complete lines. A file that is too short is not padded, but causes a warning."""
        content = self.path.read_bytes() if self.path.exists() else b""
        kept = content.rfind(b"\n", 0, n_bytes) + 1
        if kept < n_bytes:
            self.warnings.append(Warnings.WL120.format(path=self.path, found=len(content), wanted=n_bytes))
        with self.path.open("ab") as file:
            file.truncate(kept)

    @property
    def n_bytes(self) -> int:
        """RETURNS (int): Length of the log so far."""
        return self.path.stat().st_size

    def write(self, row: Dict[str, Any]) -> None:
        """row (Dict[str, Any]): Plain JSON types; numbers are also written to TensorBoard."""
        with self.path.open("a", encoding="utf8") as lines:
            lines.write(json.dumps(row, allow_nan=False) + "\n")
        if self._board is not None:
            for name, value in row.items():
                if isinstance(value, (int, float)) and name != "step":
                    self._board.add_scalar(name, value, row["step"])
            self._board.flush()
