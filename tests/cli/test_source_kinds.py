"""Every command that reads texts, with every kind of source."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from cli.calls import SMALL_BILM, SMALL_RUN, as_options, call, call_json, refused, told
from nn.tiny import make_language_model
from source_kinds import CONTENTS, N_TOKENS, PLAIN, make_json_lines, make_zip, needs_pipes, open_fifo, open_pipe

from spacy_elmo.weights import save_bilm

CONFIG = Path(__file__).parents[2] / "configs" / "pretrain_en_elmo_sm.cfg"


def _vocab(place, folder, **settings):
    return told("vocab", place, folder / "words.txt", "--min-count", 1, **settings)


def _embed(place, folder, **settings):
    call("embed", folder / "bilm", place, folder / "out.npz", **settings)
    with np.load(folder / "out.npz") as arrays:
        return f"{arrays['lengths'].sum()} tokens of {len(arrays['lengths'])}"


def _embed_parts(place, folder, **settings):
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    return told("embed", folder / "bilm", place, folder / "out", "--docs-per-file", 70, "--pool", "mean", **settings)


def _index(place, folder, **settings):
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    call("index", place, folder / "index", "--bilm", folder / "bilm", **settings)
    return f"{call_json('index', folder / 'index', '--check')['tokens']} tokens"


def _perplexity(place, folder, **settings):
    return told("perplexity", folder / "bilm", place, **settings)


def _compare(place, folder, **settings):
    return told("compare", folder / "bilm", folder / "bilm", place, **settings)


def _pretrain(place, folder, **settings):
    (folder / "valid.txt").write_bytes(PLAIN)
    options = ["--paths.valid", folder / "valid.txt", *as_options({**SMALL_RUN, **SMALL_BILM})]
    shown = told("pretrain", CONFIG, folder / "run", "--paths.train", place, *options, **settings)
    return shown.partition("Training text:")[2]


COMMANDS = [_vocab, _embed, _embed_parts, _index, _perplexity, _compare, _pretrain]


def _expect_all(shown):
    assert re.search(rf"\b{N_TOKENS:,}|{N_TOKENS} tokens", shown), shown


@pytest.fixture
def folder(bilm, tmp_path):
    save_bilm(bilm, tmp_path / "bilm")
    return tmp_path


@pytest.mark.issue(59)
@needs_pipes
@pytest.mark.parametrize("run", COMMANDS)
@pytest.mark.parametrize("kind", ["text", "bzip2", "JSON lines", "DocBin", "Parquet"])
def test_commands_read_a_pipe_once_and_whole(run, kind, folder):
    with open_pipe(CONTENTS[kind][1]()) as name:
        _expect_all(run(name, folder))


@pytest.mark.issue(59)
@needs_pipes
@pytest.mark.parametrize("run", COMMANDS)
def test_commands_read_a_named_pipe_once_and_whole(run, folder):
    with open_fifo(PLAIN, folder / "pipe") as path:
        _expect_all(run(path, folder))


@pytest.mark.issue(59)
@pytest.mark.parametrize("run", COMMANDS)
@pytest.mark.parametrize("kind", ["text", "gzip", "JSON lines", "DocBin"])
def test_commands_read_stdin_once_and_whole(run, kind, folder):
    _expect_all(run("-", folder, input=CONTENTS[kind][1]()))


@pytest.mark.issue(59)
@pytest.mark.parametrize("run", COMMANDS)
@pytest.mark.parametrize("kind", ["bzip2", "JSON lines", "DocBin by another name", "Parquet by another name"])
def test_commands_read_files_by_their_content(run, kind, folder):
    name, make = CONTENTS[kind]
    (folder / name).write_bytes(make())
    _expect_all(run(folder / name, folder))


@pytest.mark.issue(59)
@needs_pipes
def test_raw_text_from_a_pipe_is_tokenized_as_that_of_a_file(bilm, folder):
    save_bilm(make_language_model(bilm.vocabulary.words, lang="en"), folder / "bilm", force=True)
    raw = b"He sat there. She didn't, too.\n" * 40
    (folder / "raw.txt").write_bytes(raw)
    expected = [run(folder / "raw.txt", folder, **{}) for run in (_embed, _perplexity)]
    (folder / "out.npz").unlink()
    with open_pipe(raw) as first, open_pipe(raw) as second:
        shown = [_embed(first, folder), _perplexity(second, folder)]
    assert shown[0] == expected[0] == "400 tokens of 40"
    assert re.findall(r"[\d.]+ [\d.]+", shown[1]) == re.findall(r"[\d.]+ [\d.]+", expected[1])


@pytest.mark.issue(59)
@needs_pipes
def test_fields_of_a_pipe_keep_their_types(folder):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    with open_pipe(make_json_lines()) as name:
        call("embed", folder / "bilm", name, folder / "out.parquet", "--keep", "id")
    assert parquet.read_table(folder / "out.parquet").column("id").to_pylist() == list(range(300))


@pytest.mark.issue(59)
@needs_pipes
def test_a_pipe_of_held_out_text_is_refused_since_it_is_read_again(folder):
    options = as_options({**SMALL_RUN, **SMALL_BILM})
    (folder / "valid-1.txt").write_bytes(PLAIN)
    with open_pipe(PLAIN) as name:
        command = ["pretrain", CONFIG, folder / "run", "--paths.train", folder / "valid-1.txt", *options]
        assert f"paths.valid is '{name}' (a pipe" in refused(*command, "--paths.valid", name)
    assert "Training text:" in told(*command, "--paths.valid", folder / "valid-1.txt")


@pytest.mark.issue(59)
@needs_pipes
def test_a_pretraining_from_a_pipe_is_resumed_without_it(folder):
    with open_pipe(PLAIN) as name:
        _pretrain(name, folder)
    options = ["--paths.valid", folder / "valid.txt", *as_options({**SMALL_RUN, **SMALL_BILM})]
    command = ["pretrain", CONFIG, folder / "run", "--paths.train", name, *options]
    assert "Resumed at step 10" in told(*command, "--pretraining.max_tokens", "640", "--resume")


@pytest.mark.issue(59)
@pytest.mark.parametrize("stdin", [None, "closed"])
@pytest.mark.parametrize("run", [*COMMANDS, lambda place, folder, **more: told("surprisal", "en_elmo_sm", "-", **more)])
def test_no_stdin_is_an_error(run, stdin, folder, monkeypatch):
    with open(os.devnull) as closed:
        pass
    # `CliRunner` sets a stdin of its own.
    monkeypatch.setattr("spacy_elmo.corpora.sources.sys", _Sys(None if stdin is None else closed))
    with pytest.raises(AssertionError, match="no standard input to read from"):
        run("-", folder)


class _Sys:
    def __init__(self, stdin):
        self.stdin = stdin


@pytest.mark.issue(59)
@pytest.mark.parametrize("run", COMMANDS)
def test_commands_refuse_what_is_no_text(run, folder):
    (folder / "corpus.txt").write_bytes(make_zip())
    with pytest.raises(AssertionError, match=r"a(\\n| )zip(\\n| )archive"):
        run(folder / "corpus.txt", folder)
    with pytest.raises(AssertionError, match=r"a(\\n| )zip(\\n| )archive"):
        run("-", folder, input=make_zip())


@pytest.mark.issue(59)
@needs_pipes
def test_a_stream_does_not_replace_a_document_of_an_index(folder):
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    command = ("--bilm", folder / "bilm")
    for kind, content in (("text", PLAIN), ("lines", make_json_lines())):
        index = folder / kind
        call("index", "-", index, *command, input=content)
        with open_pipe(content) as pipe, open_pipe(b"a dog\n") as other:
            call("index", pipe, index)
            for source in ("-", "/dev/stdin", pipe):
                error = refused("index", source, index, input=b"a dog\n")
                name = "stdin" if source != pipe else pipe
                assert f"has a document '{name}{'' if kind == 'text' else '#1'}' already" in error
                assert f"'{name}' is a stream" in error and "Write it to a file" in error
            call("index", other, index)
        assert call_json("index", index, "--check")["tokens"] == 2 * N_TOKENS + 2
    told_of = told("index", "-", folder / "text", "--delete", "stdin", input=b"a dog\n")
    assert f"Deleted {N_TOKENS:,} tokens of 'stdin'" in told_of
    assert call_json("index", folder / "text", "--check")["tokens"] == N_TOKENS + 4
    call("index", "-", folder / "text", "--force", input=b"a dog\n")
    assert call_json("index", folder / "text", "--check")["tokens"] == 2
