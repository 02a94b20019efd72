"""Contexts and states: the rows of the benchmark, and the table drawn from them."""

import gzip

import pytest
import spacy
import srsly
from nn.tiny import make_bilm
from spacy.tokens import Doc, DocBin

from spacy_elmo import BiLM, save_bilm
from spacy_elmo.bilm.lm_head import SoftmaxHead
from spacy_elmo.text.words import Vocabulary

TAGS = ["DET", "NOUN", "VERB"]


@pytest.fixture
def assets(tmp_path):
    """A held-out text of two documents, and a treebank."""
    text, treebank = tmp_path / "assets" / "lm-english", tmp_path / "assets" / "ud" / "en_ewt"
    text.mkdir(parents=True)
    treebank.mkdir(parents=True)
    with gzip.open(text / "valid.txt.gz", "wt") as file:
        file.write("the bank lends\nthe bank floods\nthe river floods\n")
    with gzip.open(text / "documents.tsv.gz", "wt") as file:
        file.write("shard\tfirst_line\tlines\nvalid\t0\t2\nvalid\t2\t1\n")
    vocab = spacy.blank("en").vocab
    doc = Doc(vocab, words=["the", "bank", "lends"] * 2, pos=TAGS * 2, sent_starts=[True, False, False] * 2)
    for split in ("train", "dev"):
        DocBin(docs=[doc, doc]).to_disk(treebank / f"{split}.spacy")
    return tmp_path / "assets"


def test_table_is_drawn_from_the_rows(import_script, invoke, assets, tmp_path):
    network = make_bilm().network
    words = ["<S>", "</S>", "<UNK>", "the", "bank", "river", "floods"]
    head = SoftmaxHead(len(words), network.config.projection_width)
    save_bilm(BiLM(network, vocabulary=Vocabulary(words), head=head), tmp_path / "tiny")
    output = tmp_path / "results" / "contexts.json"
    command = (import_script("contexts").main, tmp_path / "tiny", "--json", output, "--threads", 1)
    invoke(*command, "--assets-dir", assets)
    stored = srsly.read_json(output)
    assert "skipped" in invoke(*command, "--assets-dir", tmp_path / "none", "--skip-finished").output
    missing = invoke(*command, "--assets-dir", tmp_path / "none", code=1)
    assert "does not exist" in " ".join(missing.output.split())
    assert srsly.read_json(output) == stored
    rows = {(row["contexts"], row["state"]): row for row in stored["rows"]}
    assert len(rows) == 5 and stored["n_documents"] == 2 and stored["n_tokens"] == 9
    # One sentence each: nothing to carry in the last document; but the second sentence of the first one differs.
    assert rows["sentences", "carry"]["perplexity"] != rows["sentences", "reset"]["perplexity"]
    section = import_script("sections").contexts_section(output.parent)
    assert f"| a sentence | zero (`reset`) | {rows['sentences', 'reset']['perplexity']:.1f} |" in section
    srsly.write_json(output, {**stored, "bilm": "en_elmo_sm"})  # as if made with other weights of this name
    assert "earlier weights of `en_elmo_sm`" in import_script("sections").contexts_section(output.parent)
