"""Atomic writing: a file is complete or as before, whatever goes wrong, and nothing is left beside it."""

from pathlib import Path

import pytest

from spacy_elmo.files import atomic_file, write_text


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    write_text(path, "one\n")
    with pytest.raises(KeyError), atomic_file(path) as part:
        part.write_text("half")
        raise KeyError
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    assert path.read_bytes() == b"one\n" and list(path.parent.iterdir()) == [path]
    write_text(path, "a\ud800", errors="replace")
    (tmp_path / "new" / "plain").touch()
    assert path.read_bytes() == b"a?"
    assert path.stat().st_mode == (tmp_path / "new" / "plain").stat().st_mode, "permissions are those of other files"
