"""Train the runs of an experiment of the paper, and store each as one JSON file; a finished run is skipped."""

import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import srsly
import typer
from wasabi import msg

from spacy_elmo import load_bilm

sys.path.append(str(Path(__file__).parents[2] / "scripts"))  # of the example: data.py, shared.py
from data import prepare
from minilm import MINILM_DIR
from paper_experiments import EXPERIMENTS, Options, Run, find_experiment
from paper_run import describe_settings, load_kept, run_experiment
from pretrain import ALTERNATIVES_DIR
from shared import ASSETS, report_errors, write_json
from stored import RESULTS_DIR, read_result

Pending = List[Tuple[Run, int, Path]]
# Settings that say which weights a result was measured with. If these have changed, the run is trained again; all other
# settings of results with the same weights have to be equal.
WEIGHTS = ("bilm_digest", "source", "minilm_digest")


@report_errors("Cannot run the experiment")
def paper_cli(
    # fmt: off
    experiment: str = typer.Argument(..., help=f"Experiment: {', '.join(EXPERIMENTS)}"),
    seed: List[int] = typer.Option([0, 1, 2], "--seed", "-s", help="Seed of the training; repeat for several"),
    conditions: List[str] = typer.Option([], "--condition", "-c", help="Only runs of this condition; repeatable"),
    max_steps: int = typer.Option(0, "--max-steps", "-n", min=0, help="Limit of updates; 0 as the experiments say"),
    assets_dir: str = ASSETS,
    results: Path = typer.Option(RESULTS_DIR, "--results", "-r", help="Folder for the results", file_okay=False),
    bilm: str = typer.Option("en_elmo_sm", "--bilm", "-b", help="Name or path of the biLM"),
    keep: Optional[Path] = typer.Option(None, "--keep", "-k", help="Folder to keep the trained pipelines in"),
    alternatives: Path = typer.Option(ALTERNATIVES_DIR, "--alternatives", "-A", help="Folder of pretrain.py's output"),
    minilm: Path = typer.Option(MINILM_DIR, "--minilm", "-m", help="Folder to unpack MiniLM into", file_okay=False),
    # fmt: on
) -> None:
    """Train, with early stopping, every run of an experiment that has no result, or no pipeline in the folder `keep`,
    and score it on the test data.
    """
    options = Options(bilm, max_steps, alternatives, minilm)
    runs = find_experiment(experiment)
    if unknown := set(conditions) - {run.condition for run in runs}:
        known = ", ".join(dict.fromkeys(run.condition for run in runs))
        raise ValueError(f"'{experiment}' has no run of the condition {', '.join(sorted(unknown))}. It has: {known}.")
    runs = [run for run in runs if not conditions or run.condition in conditions]
    check_writable(results)
    pending = find_pending(runs, seed, options, results=results, keep=keep)
    with tempfile.TemporaryDirectory() as folder:
        corpora = {}
        for dataset in dict.fromkeys(run.dataset for run, _, _ in pending):  # all data before the first training
            corpora[dataset] = Path(folder) / dataset
            prepare(dataset, corpora[dataset], assets_dir)
        if any(run.has_elmo for run, _, _ in pending):
            load_bilm(options.bilm)  # raises its error now, not after the training of a baseline
        for run, run_seed, path in pending:
            msg.divider(path.stem)
            kept = keep and keep / path.stem
            result = run_experiment(run, run_seed, corpora[run.dataset], options, pipeline_dir=kept)
            write_json(path, result)
            msg.good(f"{path.name}: {result['cpu_seconds']:.0f} s of CPU time")


def find_pending(
    runs: List[Run], seeds: List[int], options: Options, *, results: Path, keep: Optional[Path] = None
) -> Pending:
    """Compare the stored results with the runs; all seeds of one run before the next seed of any, so that every
    variant has a first result early. A result of other weights of the biLM is not finished, and will be replaced.

    RETURNS (Pending): Run, seed and file of each run without a result.
    RAISES (ValueError): If a file has other settings, or is not a result.
    """
    pending = []
    for seed in seeds:
        for run in runs:
            path = results / f"{run.name(seed)}.json"
            wanted = describe_settings(run, seed, options)
            for other in results.glob(f"{run.name('*')}.json"):  # the results of all seeds
                found = _read_settings(other)
                if _weights(found) == _weights(wanted):  # those of other weights are in no table with these
                    _check_settings(other, found, wanted)
            if not path.exists():
                pending.append((run, seed, path))
            elif _weights(_read_settings(path)) != _weights(wanted):
                msg.info(f"{path.name} was made with other weights, is trained again")
                pending.append((run, seed, path))
            elif keep is not None and load_kept(keep / path.stem) != srsly.read_json(path):
                msg.info(f"{path.name} exists, but not its pipeline, is trained again")
                pending.append((run, seed, path))
            else:
                msg.info(f"{path.name} exists, skipped")
    return pending


def _check_settings(path: Path, found: Dict[str, Any], wanted: Dict[str, Any]) -> None:
    names = sorted({*found, *wanted} - {"seed", *WEIGHTS})
    if "config_digest" not in found:  # results of the first version
        names.remove("config_digest")
    differing = [key for key in names if found.get(key) != wanted.get(key)]
    if differing:
        told = "; ".join(f"{key}: {found.get(key)}, wanted {wanted.get(key)}" for key in differing)
        raise ValueError(
            f"The result '{path}' was made with other settings ({told}). Remove the file to train again, or give "
            "another folder with --results."
        )


def _weights(settings: Dict[str, Any]) -> List[Any]:
    return [settings.get(name) for name in WEIGHTS]


def check_writable(results: Path) -> None:
    """RAISES (PermissionError): If the folder cannot be made or written to, before hours of training."""
    try:
        results.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=results):
            pass
    except OSError as e:
        raise PermissionError(
            f"Cannot write results to '{results}': {e.strerror}. Give a folder that can be written to with --results."
        ) from e


def _read_settings(path: Path) -> Dict[str, Any]:
    settings = read_result(path)["settings"]
    return {key: value for key, value in settings.items() if key != "schedule"}  # older results name the only one


if __name__ == "__main__":
    typer.run(paper_cli)
