"""`elmo same-sense`: whether a word has the same sense in two sentences."""

from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional

import srsly
import typer

from ..analysis.neighbors import to_printable
from ..analysis.same_sense import SECOND_WORD, WordPair, compare_words, read_pairs
from ..weights.identity import digest_bilm
from . import _common
from ._app import Arg, Opt, app

NO_PROBABILITY = "No probability: there is no calibration for this biLM."


@app.command("same-sense")
def same_sense_cli(
    # fmt: off
    first: Optional[str] = Arg(None, help="A sentence, in quotation marks."),
    second: Optional[str] = Arg(None, help="Another sentence."),
    word: Optional[str] = Opt(None, "--word", "-w", help="The word in both sentences."),
    second_word: Optional[str] = Opt(
        None, "--second-word", "-W", help="The word in the second sentence, if it has another form."
    ),
    pairs_path: Optional[Path] = Opt(
        None,
        "--pairs",
        "-p",
        help="Compare many pairs, from a file instead of the arguments: tab-separated word, first, second and optionally second_word, or JSON with these keys; - reads it from stdin.",
        dir_okay=False,
        allow_dash=True,
    ),
    bilm_path: str = Opt(
        "en_elmo_sm", "--bilm", "-b", help="Folder, file or zip with biLM weights, or the name of a packaged biLM."
    ),
    lang: Optional[str] = _common.TEXT_LANG_OPT,
    gpu_id: int = _common.GPU_OPT,
    as_json: bool = _common.JSON_OPT,
    as_tsv: bool = Opt(False, "--tsv", "-t", help="Print tab-separated rows instead of a table."),
    # fmt: on
) -> None:
    """Say whether a word has the same sense in two sentences: the cosine of its vectors, layer by layer.

    For the packaged biLM also the probability of the same sense, if both answers are equally frequent. It is
    right in 58 % of the pairs from SemCor, whose senses are fine, and in 77 % of those of homographs; guessing in 50 %.
    """
    # Not by `exists=True`, with which later versions of typer look for a file "-".
    if pairs_path is not None and str(pairs_path) != "-" and not pairs_path.exists():
        raise typer.BadParameter(f"File '{pairs_path}' does not exist.", param_hint="'--pairs' / '-p'")
    with _common.show_errors():
        _check_arguments(
            pairs_path is not None, FIRST=first, SECOND=second, **{"--word": word, "--second-word": second_word}
        )
        if as_json and as_tsv:
            raise ValueError("--json and --tsv are two forms of the output. Choose one of them.")
        if pairs_path is not None:
            pairs: Iterable[WordPair] = read_pairs(pairs_path)
        else:
            given = _common.to_unicode(word or "")
            texts = [_common.read_text(text or "") for text in (first, second)]
            pairs = [WordPair("", given, _common.to_unicode(second_word or given), *texts)]
        bilm = _common.open_bilm(bilm_path, gpu_id=gpu_id)
        records = list(compare_words(bilm, digest_bilm(bilm_path), pairs, lang=lang))
    if as_json:
        results = ("cosines", "probability", "is_same")
        record = {name: records[0][name] for name in results} if pairs_path is None else {"pairs": records}
        print(srsly.json_dumps(record))
    elif as_tsv:
        _print_tsv(records)
    elif pairs_path is None:
        _print_pair(records[0])
    else:
        _print_pairs(records)


def _check_arguments(has_file: bool, **given: Optional[str]) -> None:
    """RAISES (ValueError): For arguments of a single pair beside a file, or if there is neither."""
    if has_file and any(value is not None for value in given.values()):
        names = ", ".join(name for name, value in given.items() if value is not None)
        raise ValueError(
            f"--pairs reads words and sentences from its file, so that {names} would be ignored: remove one."
        )
    missing = [name for name, value in given.items() if value is None and name != "--second-word"]
    if not has_file and missing:
        raise ValueError(
            f"{', '.join(missing)} missing. Give two sentences and --word, or a file of pairs with --pairs."
        )


def _print_pair(record: Dict[str, Any]) -> None:
    rows = [(name, f"{cosine:.3f}") for name, cosine in record["cosines"].items()]
    _common.msg.table(rows, header=("layer", "cosine"), divider=True, aligns=("l", "r"))
    if record["probability"] is None:
        _common.msg.text(NO_PROBABILITY)
    else:
        _common.msg.text(f"Probability of the same sense: {record['probability']:.0%}")


def _print_pairs(records: List[Dict[str, Any]]) -> None:
    has_probability = records[0]["probability"] is not None
    header = ["pair", "word", *records[0]["cosines"], *(["same sense"] if has_probability else [])]
    rows = []
    for number, record in enumerate(records, start=1):
        words = dict.fromkeys((record["word"], record[SECOND_WORD]))
        cells = [str(number), to_printable(", ".join(words)), *(f"{value:.3f}" for value in record["cosines"].values())]
        rows.append([*cells, *([f"{record['probability']:.0%}"] if has_probability else [])])
    _common.msg.table(rows, header=header, divider=True, aligns=("r", "l", *"r" * (len(header) - 2)))
    if not has_probability:
        _common.msg.text(NO_PROBABILITY)


def _print_tsv(records: List[Dict[str, Any]]) -> None:
    """White space in texts becomes spaces; missing values are empty."""
    layers, texts = list(records[0]["cosines"]), ["word", SECOND_WORD, "first", "second"]
    print(*texts, *layers, "probability", "is_same", sep="\t")
    for record in records:
        cells = [" ".join(record[name].split()) for name in texts]
        probability = "" if record["probability"] is None else f"{record['probability']:.4f}"
        is_same = "" if record["is_same"] is None else str(record["is_same"]).lower()
        print(*cells, *(f"{record['cosines'][name]:.4f}" for name in layers), probability, is_same, sep="\t")
