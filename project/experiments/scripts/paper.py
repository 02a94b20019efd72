"""Train the runs of experiments, and store each as a line of the file of its table; a run that is finished, or that
another process trains, is skipped.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import typer
from wasabi import msg

from spacy_elmo import load_bilm

sys.path.append(str(Path(__file__).parents[2] / "scripts"))  # of the example: data.py, shared.py
from datasets import prepare
from minilm import MINILM_DIR
from paper_experiments import EXPERIMENTS, TABLE_OF, Options, Run, find_experiment
from paper_run import describe_settings, load_kept, run_experiment
from pretrain import ALTERNATIVES_DIR
from shared import ASSETS, report_errors
from stored import RESULTS_DIR, lock, name_of, read_results, store_result

Settings = Dict[str, Any]
# Settings that say which weights a result was measured with. If these have changed, the run is trained again; all other
# settings of results with the same weights have to be equal. The grid is trained again also for what `elmo init-config`
# writes anew. The biLM of a treebank is pretrained on each machine anew, and rounding gives it other weights there.
WEIGHTS = ("bilm_digest", "pretraining", "source", "minilm_digest")
DRAW = "draw_seed"  # setting of a result whose training sentences, or all parts of the data, were drawn with its seed


@report_errors("Cannot run the experiment")
def paper_cli(
    experiments: List[str] = typer.Argument(..., help=f"Experiments: {', '.join(EXPERIMENTS)}"),
    seed: List[int] = typer.Option([0, 1, 2], "--seed", "-s", help="Seed of the training; repeat for several"),
    conditions: List[str] = typer.Option([], "--condition", "-c", help="Only runs of this condition; repeatable"),
    max_steps: int = typer.Option(0, "--max-steps", "-n", min=0, help="Limit of updates; 0 as the experiments say"),
    assets_dir: str = ASSETS,
    results: Path = typer.Option(RESULTS_DIR, "--results", "-r", help="Folder for the results", file_okay=False),
    bilm: str = typer.Option("en_elmo_sm", "--bilm", "-b", help="Name or path of the biLM"),
    keep: Optional[Path] = typer.Option(None, "--keep", "-k", help="Folder to keep the trained pipelines in"),
    alternatives: Path = typer.Option(ALTERNATIVES_DIR, "--alternatives", "-A", help="Folder of pretrain.py's output"),
    minilm: Path = typer.Option(MINILM_DIR, "--minilm", "-m", help="Folder to unpack MiniLM into", file_okay=False),
) -> None:
    """Train, with early stopping, every run of the experiments that has no result, or no pipeline in the folder `keep`,
    and score it on the test data.
    """
    options = Options(bilm, max_steps, alternatives, minilm)
    runs = [run for name in experiments for run in find_experiment(name)]
    if unknown := set(conditions) - {run.condition for run in runs}:
        known = ", ".join(dict.fromkeys(run.condition for run in runs))
        raise ValueError(f"There is no run of the condition {', '.join(sorted(unknown))}. There are: {known}.")
    runs = [
        run for run in {run.name(""): run for run in runs}.values() if not conditions or run.condition in conditions
    ]
    results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=results):
        pass  # a folder that cannot be written to is an error now, not after hours
    pending = find_pending(runs, seed, options, results=results, keep=keep)
    with tempfile.TemporaryDirectory() as folder:
        corpora = {}
        for dataset in dict.fromkeys(run.dataset for run, _ in pending):  # all data before the first training
            corpora[dataset] = Path(folder) / dataset
            prepare(dataset, corpora[dataset], assets_dir)
        if any(run.has_elmo for run, _ in pending):
            load_bilm(options.bilm)  # raises its error now, not after the training of a baseline
        for run, run_seed in pending:
            name = run.name(run_seed)
            with lock(results, name, wait=False) as is_ours:
                if not is_ours:
                    msg.info(f"{name} is trained by another process, skipped")
                    continue
                if not find_pending([run], [run_seed], options, results=results, keep=keep):
                    continue  # another process has finished it
                msg.divider(name)
                result = run_experiment(run, run_seed, corpora[run.dataset], options, pipeline_dir=keep and keep / name)
                store_result(result, results / f"{TABLE_OF[run.name('')]}.jsonl")
                msg.good(f"{name}: {result['cpu_seconds']:.0f} s of CPU time")


def find_pending(
    runs: List[Run], seeds: List[int], options: Options, *, results: Path, keep: Optional[Path] = None
) -> List[Tuple[Run, int]]:
    """Compare the stored results with the runs; all seeds of one run before the next seed of any, so that every
    variant has a first result early. A result of other weights is not finished, and will be replaced; of the grid, also
    one from before words per second were measured.

    RETURNS (List[Tuple[Run, int]]): Run and seed without a result of the same training docs.
    RAISES (ValueError): If a stored result has other settings.
    """
    stored = {name_of(result): result for result in read_results(results)}
    pending = []
    for seed in seeds:
        for run in runs:
            settings = describe_settings(run, seed, options)
            of_weights = {
                name: result
                for name, result in stored.items()
                if name.startswith(run.name("")) and _weights(result["settings"], run) == _weights(settings, run)
            }
            for name, result in of_weights.items():  # of all seeds
                _check_settings(name, result["settings"], settings, results)
            name = run.name(seed)
            result = of_weights.get(name)
            is_finished = (
                result is not None
                and result["settings"].get(DRAW) == settings.get(DRAW)
                and ("words_per_second" in result or not run.is_starter)
                and (keep is None or load_kept(keep / name) == result)
            )
            if is_finished:
                msg.info(f"{name} is finished, skipped")
            else:
                pending.append((run, seed))
    return pending


def _check_settings(name: str, stored: Settings, settings: Settings, results: Path) -> None:
    names = sorted({*stored, *settings} - {"seed", DRAW, *WEIGHTS})
    if "config_digest" not in stored:  # results of the first version
        names.remove("config_digest")
    differing = [key for key in names if stored.get(key) != settings.get(key)]
    if differing:
        changes = "; ".join(f"{key}: {stored.get(key)}, wanted {settings.get(key)}" for key in differing)
        raise ValueError(
            f"The result '{name}' in '{results}' was made with other settings ({changes}). Remove its line to train "
            "again, or give another folder with --results."
        )


def _weights(settings: Settings, run: Run) -> List[Any]:
    names = [*WEIGHTS, *(["config_digest"] if run.is_starter else [])]
    if "pretraining" in settings:
        names.remove("bilm_digest")
    return [settings.get(name) for name in names]


if __name__ == "__main__":
    typer.run(paper_cli)
