"""Arguments, files and options that do not fit: a clear message, exit code 1, and nothing is written."""

import gzip
import shlex

import pytest
import spacy
from cli.calls import told
from report_outputs import write_output
from spacy.tokens import Doc, DocBin

from spacy_elmo import util
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.weights import save_bilm

pytest.importorskip("sklearn", reason="probes need scikit-learn")
FILES = {
    "text.txt": b"the cat sat on the mat .\n" * 9,
    "empty.txt": b"\n \n",
    "bad.jsonl": b"{",
    "rows.jsonl": b'{"id": "a", "words": ["the"]}\n',
    "words.jsonl": b'{"words": "the cat"}',
    "bad.spacy": b"nothing",
    "latin.txt": "cafe\ncaf\xe9".encode("latin1"),
    "cut.txt.gz": gzip.compress(b"the cat sat\n" * 99)[:-9],
    "plain.txt.gz": b"the cat sat",
    "csv/a.csv": b"a",
    "damaged/config.cfg": b"",
    "damaged/meta.json": b"[",
    "log.jsonl": b'{"step": 0, "component": "tagger", "number": 1, "shares": [0.5, 0.3, 0.2]}\n',
}
PARTS = [  # a folder needs pyarrow
    ("embed bilm text.txt new --store top", "cannot be used here"),
    ("embed bilm text.txt new --forget-sentences", "cannot be used here"),
    ("embed bilm text.txt new --keep id", "is read as text, which has no fields id"),
    ("embed bilm rows.jsonl new --keep place", "does not have the field(s) place; it has id, words"),
    ("embed bilm rows.jsonl new --keep place --on-error skip", "does not have the field(s) place"),
    ("embed bilm rows.jsonl new --keep elmo", "has a column of this name"),
    ("embed bilm rows.jsonl new --keep tokens", "has a column of this name"),
    *((f"embed bilm rows.jsonl new --shard {shard}", "--shard") for shard in ("0/2", "3/2", "a/b", "1/2 --force")),
    ("embed bilm rows.jsonl new --workers 2", "--workers is for Ray"),
    ("embed bilm rows.jsonl new --address auto", "--address is for Ray"),
    ("embed bilm rows.jsonl new --gpus-per-worker 0.5", "--gpus-per-worker is for Ray"),
    ("embed bilm rows.jsonl new --engine ray --shard 1/2", "--shard 1/2 is for jobs without Ray"),
]
TEXT = "'The bank <script>alert(1)</script> of the river.'"


@pytest.fixture(scope="module")
def place(bilm, tmp_path_factory):
    """A folder with biLMs, texts and pipelines: one that mixes layers, one without ELMo, one that is not trained."""
    place = tmp_path_factory.mktemp("mistakes")
    save_bilm(bilm, place / "bilm")
    save_bilm(BiLM(bilm.network), place / "bare")
    for name, content in FILES.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(content)
    write_output(place / "training", {})
    nlp = spacy.blank("en")
    nlp.to_disk(place / "blank")
    words, tags = ["the", "cat", "sat"], ["DET", "NOUN", "VERB"]
    DocBin(docs=[Doc(nlp.vocab, words=words, pos=tags)] * 10).to_disk(place / "tagged.spacy")
    nlp.add_pipe("elmo")
    listener = {"@architectures": "spacy-elmo.ElmoListener.v1"}
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}})
    nlp.to_disk(place / "untrained")
    return place


PIPELINE, CONFIG = "training/model-best", "init-config new.cfg"
MISTAKES = [
    ("convert bilm new --to bilm-tf --dtype int8", "int8"),
    ("convert bilm new.onnx --to onnx --dtype float16", "an ONNX graph has float32"),
    ("convert bilm new --to onnx", "does not end in .onnx"),
    ("convert bilm new.onnx", "it ends in .onnx"),
    ("convert bilm new.hdf5 --to bilm-tf", "it ends in .hdf5. Choose a path that ends in .onnx for ONNX"),
    ("convert bilm new.safetensors --to native", "it ends in .safetensors"),
    ("download small --dest new --from csv", "options.json is missing"),
    ("download smal --dest new", "no published biLM"),
    ("embed bilm bad.jsonl new.npz", "is not valid JSON"),
    ("embed bilm words.jsonl new.npz", "should be a JSON object"),
    ("embed bilm bad.spacy new.npz", "cannot be read as a DocBin: it is text."),
    ("embed bilm latin.txt new.npz --lang none", "latin.txt:2 is not valid UTF-8"),
    ("embed bilm cut.txt.gz new.npz", "EL108"),
    ("embed bilm plain.txt.gz new.npz", "EL108"),
    ("embed bilm csv new.npz", "There are no texts"),
    ("embed bilm text.txt new.npz --lang zz", "no tokenizer for the language 'zz'"),
    ("embed bilm text.txt new.npz --precision float16", "Choose 'float32'"),
    ("embed bilm text.txt new.npz --gpu-id 99", "There is no GPU number 99"),
    ("embed bilm text.txt new.txt", "should end in .npz"),
    ("embed bilm text.txt new.hdf5 --store both", "cannot be used here"),
    ("embed bilm text.txt new.npz --store top", "cannot be used here"),
    ("embed bilm text.txt new.npz --to hdf5", "should end in .npz"),
    ("embed bilm text.txt - --to hdf5", "should end in .npz"),
    ("embed bilm text.txt new.hdf5 --to npz", "should end in .npz"),
    ("embed bilm rows.jsonl new.npz --keep id", "the output is npz"),
    *((f"explore --host '{host}' --port 0", "it has no passwords") for host in ("0.0.0.0", "::", "example.org", "")),
    ("explore --pipeline blank --port 0", "EL230"),
    ("explore --pipeline training --port 0", "model-best"),
    (CONFIG, "Name components with --component"),
    (f"{CONFIG} --pipeline nre", "[EL210]"),
    (f"{CONFIG} --bilm ' '", "--bilm is empty"),
    (f"{CONFIG} --pipeline ner,ner", "'ner' is listed 2 times"),
    (f"{CONFIG} --pipeline sentencizer", "no component that could listen"),
    (f"{CONFIG} --lang qq", "cannot create a pipeline"),
    (f"{CONFIG} --from nowhere --component ner", "nowhere"),
    (f"{CONFIG} --from training --component ner", "model-best"),  # what may be meant
    (f"{CONFIG} --component ner --data nowhere.spacy", "'nowhere.spacy'"),
    (f"{CONFIG} --component ner --data bad.spacy", "cannot be read as a DocBin: it is text."),
    (f"{CONFIG} --from blank --component ner --lang de", "--lang is 'de', but its language is 'en'"),
    ("init-pretraining new.cfg --small --text nowhere.txt", "'nowhere.txt'"),
    ("init-adaptation new.cfg --text nowhere.txt", "'nowhere.txt'"),
    ("init-adaptation new.cfg --bilm ''", "--bilm is empty"),
    (f"layer-weights {PIPELINE} --log log.jsonl", "--log needs a file"),
    (f"layer-weights {PIPELINE} --picture new.doc", "A picture cannot be written"),
    ("layer-weights csv", "so it is not a pipeline"),
    ("layer-weights training", "model-best"),
    (f"layer-weights {PIPELINE} csv/../{PIPELINE}", "is named twice"),
    ("layer-weights blank", "mixes the layers of a biLM"),
    ("layer-weights untrained", "are not trained, so that they"),
    (f"layer-weights {PIPELINE} csv --log log.jsonl --picture new.svg", "--log draws the course of one pipeline"),
    ("package absent new --name Ti-ny", "is not a valid"),  # before weights are read
    ("package absent new --name a --version x", "is not a valid"),
    ("package absent new --name a --lang zz", "There is no tokenizer"),
    ("perplexity bare text.txt", "softmax"),
    ("perplexity bilm text.txt --gpu-id 99", "no GPU number 99"),
    ("probe bilm tagged.spacy -a tag", "has no token with the attribute"),
    ("probe bilm tagged.spacy -a colour", "Unknown attribute"),
    ("probe bilm tagged.spacy -a sense", "cannot be read for --attr"),
    ("probe bilm tagged.spacy -a pos -t tagged.spacy", "are the same file"),
    ("probe bilm tagged.spacy -a pos --layers 7", "Unknown layer"),
    ("probe blank tagged.spacy -a pos", "has no component `elmo`"),
    ("probe none tagged.spacy -a pos", "EL020"),
    ("probe bilm tagged.spacy -a pos -p new.doc", "A picture cannot be written"),
    ("probe bilm tagged.spacy -a pos -o new.png -p csv/../new.png", "would write the same"),
    *((f"report {place} --html new.html", "EL430") for place in ("csv", "nowhere", "bad.spacy")),
    ("report training --baseline csv --html new.html", "EL430"),
    ("report damaged --html new.html", "EL431"),
    ("report training --data bad.spacy --html new.html", "cannot be read as annotated Docs"),
    (f"report training --baseline {PIPELINE} --html new.html", "is the trained pipeline itself"),
    ("report training --html bad.spacy/page.html", "cannot be a folder"),
    ("substitutes bilm 'The bank.' --word river", "has 0 occurrences of the word 'river'"),
    ("substitutes bilm 'The bank.' --word bank -n 2", "has 1 occurrence of"),
    (f"substitutes bilm {TEXT} --word bank --lang zz", "There is no tokenizer"),
    ("surprisal bilm ' '", "The text is empty"),
    (f"surprisal bilm {TEXT} --lang zz", "There is no tokenizer"),
    (f"surprisal bilm {TEXT} --dpi 300", "--dpi is for a picture"),
    ("vocab empty.txt new.txt", "EL101"),
    ("vocab text.txt new.txt --lang qq", "There is no tokenizer"),
    ("vocab text.txt new.txt --format docbin", "cannot be read as a DocBin: it is text."),
    ("vocab csv new.txt", "There are no texts"),
]


@pytest.mark.parametrize("line, message", MISTAKES + PARTS, ids=[line for line, _ in MISTAKES + PARTS])
def test_a_mistake_has_a_message_and_nothing_is_written(line, message, place, monkeypatch):
    if (line, message) in PARTS:
        pytest.importorskip("pyarrow", reason="needs pyarrow")
    monkeypatch.chdir(place)
    shown = told(*shlex.split(line), code=1)
    written = [path.name for path in place.glob("new*")]
    assert message in shown and not written, (shown, written)


def test_a_package_that_is_missing_is_named_with_what_to_install(place, monkeypatch):
    monkeypatch.chdir(place)
    for name, line, remedy in (
        ("has_uvicorn", "explore --port 0", "spacy-elmo[explore]"),
        ("has_pyarrow", "embed bilm text.txt new", "--to docbin"),
        ("has_pyarrow", "embed bilm text.txt new.parquet", "pip install pyarrow"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(util, name, False)
            assert remedy in told(*shlex.split(line), code=1)
    assert not list(place.glob("new*"))
