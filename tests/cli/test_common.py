"""Error messages of the command line."""

import errno
import os

import pytest
import typer
from cli.calls import call, call_json, refused

from spacy_elmo.cli._common import show_errors


def _told(capsys, error):
    with pytest.raises(typer.Exit), show_errors():
        raise error
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "number, path, told",
    [
        (errno.ENOENT, "words.txt", "Cannot open 'words.txt': No such file or directory. Check the path."),
        (errno.ENOTDIR, "a/b", "'a/b': Not a directory. Part of this path is a file"),
        (errno.ENOSPC, None, "Cannot write a file: No space left on device. Free disk space"),
        (errno.EIO, "x", "'x': Input/output error. Check the path and the disk."),
    ],
)
def test_errors_of_the_system_have_a_remedy(capsys, number, path, told):
    assert told in _told(capsys, OSError(number, os.strerror(number), path))


@pytest.mark.issue(60)
def test_parameters_of_functions_are_options_of_the_command(bilm_path, tmp_path, monkeypatch):
    """What the command does not have, or what is no parameter, stays as it is."""
    message = 'Set `lang="de"`, `force=True`, `bilm`, `options=...` or `k` of `meta.json`.\nOr `code="a b.py"`.'

    def fail(*args, **settings):
        raise ValueError(message)

    monkeypatch.setattr("spacy_elmo.cli.init_config.make_pipeline_config", fail)
    shown = refused("init-config", tmp_path / "new.cfg", "--component", "ner")
    assert "Set --lang de, --force, --bilm, `options=...` or `k` of `meta.json`." in shown
    assert shown.endswith("Or --code a b.py.")


@pytest.mark.issue(37)
def test_a_tilde_that_no_shell_has_replaced_is_the_home_folder(bilm_path, monkeypatch):
    home = bilm_path.parent
    monkeypatch.setenv("HOME", str(home))
    (home / "corpus").mkdir()
    (home / "corpus" / "a.txt").write_text("the cat sat\nthe cat\n")
    for arguments in (
        ("convert", "~/bilm", "~/tf", "--to", "bilm-tf"),
        ("inspect", "~/tf/weights.hdf5", "--options=~/tf/options.json", "--vocab", "~/tf/vocab.txt"),
        ("compare", "~/bilm", "~/tf", "~/corpus/a.txt"),
        ("perplexity", "~/bilm", "~/corpus/a.txt"),
        ("embed", "~/bilm", "~/corpus/*.txt", "~/vectors.npz"),
        ("vocab", "~/corpus", "~/words.txt"),
        ("init-pretraining", "~/pretrain.cfg"),
    ):
        call(*arguments)
    assert {"tf", "vectors.npz", "words.txt", "pretrain.cfg"} <= {path.name for path in home.iterdir()}


@pytest.mark.issue(37)
def test_a_text_that_begins_with_a_tilde_stays_as_it_is(bilm_path):
    assert call_json("surprisal", bilm_path, "~/ is home")["tokens"][0]["token"].startswith("~")
