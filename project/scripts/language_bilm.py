"""Pretrain a small biLM on the training text of a treebank: the recipe for a language without a biLM."""

import shutil
import tempfile
from pathlib import Path

import typer
from alternatives import call_pretrain
from known_datasets import PROJECT_DIR
from messages import Messages
from paper_experiments import LANGUAGES
from prepare_data import prepare
from wasabi import msg

from spacy_elmo.pretraining.vocabulary import save_vocabulary

CONFIG = PROJECT_DIR.parent / "configs" / "pretrain_small_text.cfg"
LANGUAGES_DIR = PROJECT_DIR / "training" / "languages"


def language_cli(
    # fmt: off
    dataset: str = typer.Argument(..., help=f"Treebank: {', '.join(LANGUAGES)}"),
    passes: float = typer.Option(20.0, "--passes", "-n", min=0.01, help="Passes through the training text"),
    output: Path = typer.Option(LANGUAGES_DIR, "--output", "-o", help="Folder of the biLMs", file_okay=False),
    assets_dir: str = typer.Option("", "--assets-dir", "-a", help="Folder with local copies"),
    force: bool = typer.Option(False, "--force", "-F", help="Replace a biLM that exists"),
    # fmt: on
) -> None:
    """Count the vocabulary of the training part, and pretrain on it with configs/pretrain_small_text.cfg."""
    try:
        path = pretrain_language(dataset, output, passes=passes, assets_dir=assets_dir, force=force)
    except (ValueError, OSError) as e:
        msg.fail(f"Cannot pretrain on '{dataset}'", str(e), exits=1)
    msg.good(f"{path}: a biLM")


def pretrain_language(
    dataset: str, output: Path, *, passes: float = 20.0, assets_dir: str = "", force: bool = False
) -> Path:
    """Pretrain, and keep the biLM with the lowest perplexity on the development part; an existing one is kept.

    RETURNS (Path): The folder of the biLM, <output>/<dataset>_elmo.
    RAISES (ValueError): P050 for an unknown treebank, P051 if the pretraining fails.
    RAISES (FileNotFoundError): P001 or P002 for missing data.
    """
    if dataset not in LANGUAGES:
        raise ValueError(Messages.P050.format(name=dataset, known=", ".join(LANGUAGES)))
    target = output / f"{dataset}_elmo"
    if target.exists() and not force:
        msg.info(f"{target} exists; --force makes it again")
        return target
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output) as folder:
        corpus, run = Path(folder) / "corpus", Path(folder) / "run"
        prepare(dataset, corpus, assets_dir)
        save_vocabulary([str(corpus / "train.spacy")], corpus / "vocab.txt")
        _pretrain(dataset, corpus, run, passes)
        shutil.rmtree(target, ignore_errors=True)
        (run / "model-best").rename(target)
    return target


def _pretrain(dataset: str, corpus: Path, run: Path, passes: float) -> None:
    settings = {
        "paths.train": corpus / "train.spacy",
        "paths.valid": corpus / "dev.spacy",
        "paths.vocab": corpus / "vocab.txt",
        "pretraining.max_passes": passes,
        "pretraining.eval_every": 200,
        "meta.name": f"{dataset}_elmo",
        "meta.lang": LANGUAGES[dataset],
    }
    call_pretrain(CONFIG, run, settings)


if __name__ == "__main__":
    typer.run(language_cli)
