"""Vocabulary and softmax of a run that starts from a biLM or a vocabulary file."""

import pytest
from pretraining.small_run import TRANSFORMER

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.network import AdaptiveHead, BiLMNetwork, SoftmaxHead
from spacy_elmo.corpora.places import ignore_message
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.pretraining.distributed import Ranks
from spacy_elmo.pretraining.prepare import make_run
from spacy_elmo.pretraining.run_config import PathsConfig
from spacy_elmo.pretraining.vocabulary import choose_vocabulary
from spacy_elmo.text.words import Vocabulary
from spacy_elmo.weights import save_bilm

MARKS = ["<S>", "</S>", "<UNK>"]
WORDS = [*MARKS, "the", "cat", "sat"]
SIZES = {"n_layers": 1, "cell_width": 8, "projection_width": 4}
CHARACTERS = {"char_cnn": {"embedding_width": 4, "filters": [[1, 4]], "n_highway": 0}}


def _bilm(*, reads_words, head=None, words=WORDS):
    config = BiLMConfig.from_dict({**SIZES, **({"n_words": len(WORDS)} if reads_words else CHARACTERS)})
    network = BiLMNetwork(config).eval()
    if head == "tied":
        head = SoftmaxHead.tied(network.word_embedding)
    return BiLM(network, vocabulary=Vocabulary(words) if words else None, head=head)


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat\nthe dog ran\n" * 20)
    return str(tmp_path / "text.txt")


def _words_of(init, tmp_path, words=None, *, is_new_head=False, warn=ignore_message):
    path = tmp_path / "words.txt"
    if words is not None:
        path.write_text("".join(f"{word}\n" for word in words), encoding="utf8")
    paths = PathsConfig(init="the_bilm", vocab=None if words is None else str(path))
    return choose_vocabulary(init, paths, is_new_head=is_new_head, warn=warn)


@pytest.mark.parametrize("has_head", [True, False])
@pytest.mark.parametrize("is_new_head", [True, False])
def test_a_word_table_keeps_its_words(tmp_path, has_head, is_new_head):
    init = _bilm(reads_words=True, head=SoftmaxHead(len(WORDS), 4) if has_head else None)
    assert _words_of(init, tmp_path, is_new_head=is_new_head).words == WORDS
    assert _words_of(init, tmp_path, WORDS, is_new_head=is_new_head).words == WORDS
    for other, found in ((WORDS[:-1], "1 words that differ"), ([*WORDS, "on"], "1 words"), (WORDS[::-1], "order")):
        with pytest.raises(ValueError, match=f"{found}"):
            _words_of(init, tmp_path, other, is_new_head=is_new_head)


def _config(text, init=None, **pretraining):
    paths = {"train": str(text), "valid": str(text), "init": init and str(init)}
    return {"paths": paths, "pretraining": {"batch_size": 2, **pretraining}}


def test_a_head_that_is_kept_keeps_its_words(tmp_path):
    """And one without a vocabulary needs one that fits."""
    without = _bilm(reads_words=False, head=SoftmaxHead(len(WORDS), 4), words=None)
    assert _words_of(without, tmp_path, WORDS).words == WORDS
    with pytest.raises(ValueError, match="6 rows.*has 3 words"):
        _words_of(without, tmp_path, MARKS)
    with pytest.raises(ValueError, match="no vocabulary is given"):
        choose_vocabulary(without, PathsConfig(init="the_bilm"), is_new_head=False)
    init = _bilm(reads_words=False, head=SoftmaxHead(len(WORDS), 4))
    assert _words_of(init, tmp_path).words == WORDS
    with pytest.raises(ValueError, match="its softmax cannot predict"):
        _words_of(init, tmp_path, [*MARKS, "dog"])
    assert _words_of(init, tmp_path, [*MARKS, "dog"], is_new_head=True).words[3:] == ["dog"]
    assert _words_of(init, tmp_path, is_new_head=True) is None  # to be counted


@pytest.mark.parametrize(
    "content, told",
    [
        ("\n".join(WORDS) + "\n \n\n", r"has 2 blank line\(s\): 7, 8"),
        (None, r"words\.txt'"),
        ("\n".join([*MARKS, "B\udce4r"]), r"words\.txt'.*UTF-8"),
    ],
    ids=["blank lines", "missing", "latin-1"],
)
def test_a_file_that_is_no_vocabulary_is_named(tmp_path, content, told):
    path = tmp_path / "words.txt"
    if content is not None:
        path.write_bytes(content.encode("utf8", "surrogateescape"))
    with pytest.raises(ValueError, match=told):
        choose_vocabulary(None, PathsConfig(vocab=str(path)), is_new_head=False)
    path.write_text("\n".join(WORDS) + "\n")
    assert choose_vocabulary(None, PathsConfig(vocab=str(path)), is_new_head=False).words == WORDS


ADAPTIVE = {"kind": "adaptive", "cutoffs": (4,), "div_value": 2.0}


@pytest.mark.parametrize(
    "head, settings, different",
    [
        (SoftmaxHead(6, 4), {}, ""),
        (SoftmaxHead(6, 4), {"tie_weights": True}, "tie_weights: true in the block, false in the biLM"),
        ("tied", {"tie_weights": True}, ""),
        (SoftmaxHead(6, 4), ADAPTIVE, "kind: adaptive in the block, sampled or full in the biLM"),
        (AdaptiveHead(6, 4, [4], 2.0), ADAPTIVE, ""),
        (AdaptiveHead(6, 4, [4], 2.0), {}, "kind: sampled or full in the block, adaptive in the biLM"),
        (AdaptiveHead(6, 4, [4], 2.0), {**ADAPTIVE, "cutoffs": (3,)}, "cutoffs: [3] in the block, [4] in the biLM"),
    ],
)
def test_the_softmax_of_a_bilm_is_the_one_of_the_block(text, tmp_path, head, settings, different):
    save_bilm(_bilm(reads_words=True, head=head), tmp_path / "bilm")
    config = _config(text, tmp_path / "bilm", softmax={"kind": "full", **settings})
    if not different:
        wanted = type(_bilm(reads_words=True, head=head).head)
        assert type(make_run(config, tmp_path / "out", Ranks()).trainer.head) is wanted
        return
    with pytest.raises(ValueError) as error:
        make_run(config, tmp_path / "out", Ranks())
    assert different in str(error.value) and "new_head" in str(error.value)


@pytest.mark.parametrize(
    "kind, is_word_input, tie_weights, is_refused",
    [
        ("sampled", True, True, False),
        ("sampled", True, False, False),
        ("sampled", False, False, False),
        ("full", True, False, False),
        ("full", True, True, True),
        ("full", False, False, True),
        ("adaptive", True, False, False),
        ("adaptive", False, False, True),
    ],
)
def test_sparse_is_refused_where_no_gradient_is(text, tmp_path, kind, is_word_input, tie_weights, is_refused):
    softmax = {"kind": kind, "tie_weights": tie_weights, "n_negatives": 2, "cutoffs": [2]}
    config = _config(text, softmax=softmax, optimizer={"sparse": True})
    config["bilm"] = {**SIZES, **({} if is_word_input else CHARACTERS)}
    if is_refused:
        with pytest.raises(ValueError, match=f'softmax.kind = "{kind}"'):
            make_run(config, tmp_path / "out", Ranks())
    else:
        assert make_run(config, tmp_path / "out", Ranks()).trainer.optimizer.settings.sparse


def test_held_out_text_is_cut_and_counted_and_the_output_is_not_read(tmp_path):
    text, valid = tmp_path / "text.txt", tmp_path / "valid.txt"
    text.write_text("the cat sat\n" * 9)
    valid.write_bytes(b"the cat sat on\n\n\xff\n")
    config = {
        "paths": {"train": str(tmp_path), "valid": str(valid)},
        "bilm": {**SIZES, **CHARACTERS},
        "pretraining": {"max_sentence_tokens": 3, "softmax": {"kind": "full"}},
    }
    told = []
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "log.jsonl").write_text("{}\n")
    run = make_run(config, tmp_path / "out", Ranks(), on_message=told.append)
    assert {source["name"] for source in run.text.sources} <= {"text.txt", "valid.txt"}
    assert "wrote are not read as texts" in " ".join(told)
    assert run.held_out == [["the", "cat", "sat"], ["on"], ["\ufffd"]]
    for part in ("Held-out text: Read 5 tokens in 3 sentences", "1 empty", "1 long", "1 invalid UTF-8"):
        assert part in " ".join(told)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"reset_blocks": False}, "reset_blocks is false"),
        ({"max_sentence_tokens": 16}, r"max_sentence_tokens is 16, should be at most unroll_steps - 1 \(15\)"),
        ({"bilm": {**TRANSFORMER, "transformer": {"n_heads": 2, "max_positions": 9}}}, r"max_positions - 2 \(7\)"),
    ],
)
def test_settings_that_need_a_state_are_refused(text, tmp_path, settings, message):
    given = {"unroll_steps": 16, "max_sentence_tokens": 15, "bilm": TRANSFORMER, **settings}
    config = {"paths": {"train": str(text), "valid": str(text)}, "bilm": given.pop("bilm"), "pretraining": given}
    with pytest.raises(ValueError, match=f"{message}"):
        make_run(config, tmp_path / "out", Ranks())
    assert not (tmp_path / "out").exists()  # told before the text is tokenized
