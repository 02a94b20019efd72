"""Every code block of README.md and docs/ runs.

The blocks of a page run one after the other, Python and commands alike, with what the page takes for granted around
them: tiny weights, a small corpus, annotated Docs. Without --slow, commands that train are left out.
"""

import gzip
import re
import shlex
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Dict, List, NamedTuple

import numpy as np
import pytest
import spacy
import srsly
from nn.tiny import make_language_model
from reference.allennlp_state import elmo_state, make_config, write_archive
from reference.seeded_manylangs import make_architecture, write_manylangs, write_zip
from reference.seeded_weights import read_arrays
from reference.tensorflow_files import write_checkpoint, write_module
from spacy.cli import app as spacy_app
from spacy.cli.init_config import fill_config
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from thinc.api import Config
from typer.testing import CliRunner

import spacy_elmo.pipeline.component  # noqa: F401  registers the factory
from spacy_elmo import explorer
from spacy_elmo.cli._app import COMMANDS
from spacy_elmo.cli._app import app as elmo_app
from spacy_elmo.explorer import serving
from spacy_elmo.inference import products
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.weights import save_bilm

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))]
SENTENCES = ["She sat on the bank .", "Ada Lovelace met Charles Babbage in London ."] * 20
# What makes a command of a page short enough for a test.
SMALLER = "--bilm.cell_width 16 --bilm.projection_width 8 --bilm.char_cnn.filters [[1,8]]".split()
SHORTER: Dict[str, List[str]] = {
    "pretrain": "--pretraining.batch_size 2 --pretraining.max_tokens 128 --pretraining.softmax.kind full "
    "--pretraining.precision float32".split(),
    "train": ["--training.max_steps", "2", "--training.eval_frequency", "1"],
}
# Packages that the test extra installs, but not every environment has. Blocks that need one are last on their page.
OPTIONAL = ("onnx", "onnxruntime")
LONG = (["elmo", "pretrain"], ["init", "fill-config"], ["train"])


class Block(NamedTuple):
    """A fenced block: its language and its text."""

    language: str
    text: str


def read_blocks(page: str) -> List[Block]:
    """page (str): A Markdown file, from the root of the repository.
    RETURNS (List[Block]): Its fenced blocks, in order.
    """
    text = (ROOT / page).read_text(encoding="utf8")
    return [Block(*found) for found in re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.M | re.S)]


def read_commands(block: Block) -> List[List[str]]:
    """RETURNS (List[List[str]]): The lines of a bash block, split as a shell does; a backslash continues a line."""
    lines = block.text.replace("\\\n", " ").splitlines()
    commands = [_of_one_process(shlex.split(line, comments=True)) for line in lines]
    return [command for command in commands if command]


def _of_one_process(command: List[str]) -> List[str]:
    """What each of the processes runs that `torch.distributed.run` starts."""
    is_launcher = "torch.distributed.run" in command
    return ["python", "-m", *command[command.index("spacy_elmo") :]] if is_launcher else command


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with everything that the pages speak of."""
    folder = tmp_path
    (folder / "configs").symlink_to(ROOT / "configs")
    bilm = _make_bilm()
    save_bilm(bilm, folder / "weights" / "elmo_small", format="bilm-tf")
    save_bilm(bilm, folder / "weights" / "elmo_pt", format="bilm-tf")
    text = "\n".join(SENTENCES)
    write_manylangs(folder / "manylangs", make_architecture())
    write_zip(folder / "weights" / "179.zip", folder / "manylangs")
    options = srsly.read_json(folder / "weights" / "elmo_small" / "options.json")
    arrays = read_arrays(folder / "weights" / "elmo_small" / "weights.hdf5")
    accumulators = {name: np.ones_like(array) for name, array in arrays.items()}
    write_checkpoint(folder / "training", options, arrays, bilm.vocabulary.words, accumulators=accumulators)
    own = {name: array for name, array in arrays.items() if not name.startswith("softmax")}
    mix = {"weights": np.zeros(3, dtype="float32"), "scaling": np.array(1, dtype="float32")}
    write_module(folder / "elmo_module", own, mix)
    (folder / "weights" / "archive").mkdir()
    state = elmo_state(arrays, options)
    write_archive(folder / "weights" / "archive" / "model.tar.gz", state, make_config(options_file=options))
    (folder / "novels").mkdir()
    for year in (1840, 1860):
        lines = [f"It was train {i} of {year}." for i in range(5)]
        (folder / "novels" / f"{year}_Bronte.txt").write_text(" ".join(lines), encoding="utf8")
    (folder / "corpus").mkdir()
    shutil.copy(ROOT / "README.md", folder)
    (folder / "corpus" / "valid.txt").write_text(text, encoding="utf8")
    for name in ("train", "train-00", "train-04", "train-05", "valid", "test"):
        (folder / "corpus" / f"{name}.txt.gz").write_bytes(gzip.compress(text.encode("utf8")))
    save_bilm(BiLM(bilm.network), folder / "elmo", format="bilm-tf")
    for corpus in ("", "ncbi-disease", "project/corpus/sample"):
        (folder / corpus).mkdir(parents=True, exist_ok=True)
        for name in ("train.spacy", "dev.spacy", "test.spacy"):
            _make_docs().to_disk(folder / corpus / name)
    (folder / "train.csv").write_text('text,label\n"Good, really",joy\nOh no,fear\n', encoding="utf8")
    _write_labelled(folder)
    for block in read_blocks("docs/quickstart.md"):
        if block.language == "ini" and "[nlp]" in block.text:  # the last one is saved under this name
            (folder / "base.cfg").write_text(block.text, encoding="utf8")
    trained = folder / "project/training/sample/elmo-0/model-best"
    trained.mkdir(parents=True)
    _make_pipeline(folder / "elmo").to_disk(trained)
    (folder / "project/training/sample/baseline-0").mkdir()
    spacy.blank("en").to_disk(folder / "project/training/sample/baseline-0/model-best")
    trained_ner = spacy.blank("en")
    trained_ner.add_pipe("sentencizer")
    trained_ner.add_pipe("ner").add_label("PERSON")
    trained_ner.initialize()
    trained_ner.to_disk(folder / "my_pipeline")
    _make_pipeline(folder / "elmo").to_disk(folder / "en_elmo_ewt")  # found if the package is not installed
    monkeypatch.chdir(folder)
    for module in (explorer, serving):
        monkeypatch.setattr(module, "serve", lambda explorer, bound: None)  # which would wait for Ctrl+C
    return folder


def _make_bilm() -> BiLM:
    return make_language_model(["<S>", "</S>", "<UNK>", *sorted(set(" ".join(SENTENCES).split()))])


def _make_pipeline(bilm_path: Path) -> Language:
    """A tagger that listens, as `spacy project run train` makes one."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo").load_weights(bilm_path)
    config = {"model": {"tok2vec": {"@architectures": "spacy-elmo.ElmoListener.v1"}}}
    tagger = nlp.add_pipe("tagger", config=config)
    example = Example.from_dict(nlp.make_doc("bank"), {"tags": ["NOUN"]})
    tagger.initialize(lambda: [example], nlp=nlp)
    return nlp


def _make_docs() -> DocBin:
    nlp = spacy.blank("en")
    docs = [nlp(text) for text in SENTENCES]
    for doc in docs:
        doc.ents = [Span(doc, 0, 2, label="PERSON")] if doc[0].text == "Ada" else []
    return DocBin(docs=docs)


def _write_labelled(folder: Path) -> None:
    """Annotated text for probes: parts of speech in `ud`, senses in `wsd`."""
    vocab = spacy.blank("en").vocab
    docs = [Doc(vocab, words=["She", "sat", "."], pos=["PRON", "VERB", "PUNCT"]) for _ in range(5)]
    uses = [{"doc": sense, "tokens": ["the", "bank"], "senses": [[1, "bank", "NOUN", sense]]} for sense in "ab"]
    for name in ("train", "test"):
        (folder / "ud").mkdir(exist_ok=True)
        (folder / "wsd").mkdir(exist_ok=True)
        DocBin(docs=docs).to_disk(folder / "ud" / f"{name}.spacy")
        srsly.write_jsonl(folder / "wsd" / f"{name}.jsonl", uses)


@pytest.mark.parametrize("is_long", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("page", PAGES)
def test_page_runs(page: str, is_long: bool, workplace: Path) -> None:
    space: Dict[str, object] = {}
    if page == "docs/migrating.md":  # which says how to make the folder
        shutil.rmtree("elmo")
    for number, block in enumerate(read_blocks(page)):
        if any(re.search(rf"\b{name}\b", block.text) for name in OPTIONAL):
            for name in OPTIONAL:
                pytest.importorskip(name, reason=f"the blocks of {page} from number {number} on need {name}")
        if block.language == "python":
            exec(compile(block.text, f"{page}, block {number}", "exec"), space)
        elif block.language == "bash":
            for command in read_commands(block):
                _run(command, is_long)


def _run(command: List[str], is_long: bool) -> None:
    """Run a command of spaCy or of ours; project and installation have tests of their own, benchmarks take long."""
    arguments = ["elmo", *command[3:]] if command[:3] == ["python", "-m", "spacy_elmo"] else command[3:]
    is_trained_here = any(argument.startswith("runs/") for argument in arguments)
    is_left_out = not is_long and (is_trained_here or any(arguments[: len(start)] == start for start in LONG))
    if command[:2] != ["python", "-m"] or arguments[0] == "project" or is_left_out:
        return
    if "int8" in arguments and not products.is_supported_on_cpu("int8"):
        return
    app, arguments = (elmo_app, arguments[1:]) if arguments[0] == "elmo" else (spacy_app, arguments)
    is_lstm = not {"configs/adapt.cfg", "configs/pretrain_transformer.cfg"}.intersection(arguments)
    smaller = SMALLER if arguments[0] == "pretrain" and is_lstm else []
    with warnings.catch_warnings():
        if arguments[0] == "package":  # which has an option twice, and leaves files open
            warnings.filterwarnings("ignore", "The parameter -R is used more than once")
            warnings.simplefilter("ignore", ResourceWarning)
        result = CliRunner().invoke(app, [*arguments, *smaller, *SHORTER.get(arguments[0], [])])
    assert result.exit_code == 0, f"{' '.join(arguments)}\n{result.output}\n{result.exception!r}"


@pytest.mark.parametrize("page", PAGES)
def test_config_blocks_parse_and_those_to_paste_can_be_filled(page: str, tmp_path: Path) -> None:
    """A block with [nlp] is pasted as it stands; a later excerpt is pasted below it."""
    pasted = ""
    for block in read_blocks(page):
        if block.language != "ini":
            continue
        assert Config().from_str(_missing_parents(block.text) + block.text, interpolate=False)
        pasted = block.text if "[nlp]" in block.text else pasted and pasted + block.text
        if pasted:
            (tmp_path / "base.cfg").write_text(pasted, encoding="utf8")
            _, filled = fill_config(tmp_path / "filled.cfg", tmp_path / "base.cfg")
            nlp = spacy.util.load_model_from_config(filled)
            assert nlp.pipe_names == filled["nlp"]["pipeline"]


def _missing_parents(text: str) -> str:
    """Headers of the blocks that an excerpt is a part of."""
    sections = re.findall(r"^\[(.+)\]$", text, flags=re.M)
    parents = {".".join(name.split(".")[:n]) for name in sections for n in range(1, name.count(".") + 1)}
    return "".join(f"[{name}]\n" for name in sorted(parents - set(sections)))


@pytest.mark.issue(60)
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a clone")
def test_what_the_readme_writes_into_a_clone_is_ignored_by_git() -> None:
    texts = [word for block in read_blocks("README.md") if block.language == "bash" for word in block.text.split()]
    named = ("ner.cfg", "ner_baseline.cfg", "pretrain.cfg", "vectors.npz", "weights/example", "corpus/train.txt.gz")
    assert set(named) <= set(texts)
    written = [*named, "runs/ner/model-best/meta.json", "en_my_ner-0.0.0/setup.py", "wheels/spacy_elmo.whl"]
    for command, expected in (("check-ignore", written), ("ls-files --cached --ignored --exclude-standard", [])):
        names = written if expected else []
        result = subprocess.run(["git", *command.split(), *names], cwd=ROOT, capture_output=True, text=True)
        assert result.stdout.split() == expected


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_known(page: str) -> None:
    commands = [command for block in read_blocks(page) if block.language == "bash" for command in read_commands(block)]
    for command in commands:
        text = " ".join(command)
        assert command[0] in ("pip", "python", "bash"), text
        if command[:5] == ["python", "-m", "spacy", "project", "run"]:
            project = srsly.read_yaml(ROOT / command[6] / "project.yml")
            assert command[5] in {*project["workflows"], *(step["name"] for step in project["commands"])}, text
        elif command[:4] == ["python", "-m", "spacy", "elmo"]:
            assert command[4] in COMMANDS, text
