"""Tables of which the packaged weights have not measured all rows: the others are of earlier weights, and say so."""

from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from weights_in_use import describe_earlier, split_by_weights

Result = Dict[str, Any]
Make = Callable[[List[Result]], Optional[str]]
MARK = " †"


def draw_by_row(make: Make, results: List[Result]) -> Optional[str]:
    """For tables whose rows are not compared with each other.

    RETURNS (Optional[str]): Markdown; rows of earlier weights, where the packaged ones have measured nothing of a task
        and condition, are marked.
    """
    kept, missing = split_missing(results)
    content = make([*kept, *missing])
    known = set((make(kept) or "").splitlines())
    if content is None or known >= set(content.splitlines()):
        return content
    header, rule, *rows = content.splitlines()
    rows = [row if row in known else row.replace(" |", f"{MARK} |", 1) for row in rows]
    return "\n".join([header, rule, *rows, "", f"{MARK.strip()} {_describe(missing)}"])


def choose_results(make: Make, results: List[Result]) -> Tuple[List[Result], str]:
    """For tables whose rows are compared with each other: all of them are of the same weights.

    RETURNS (Tuple[List[Result], str]): The results of the packaged weights, or of earlier ones if these have more
        rows; and a paragraph that says so, or "".
    """
    kept, earlier = split_earlier(results)
    before = [*(result for result in kept if not result["settings"].get("bilm")), *earlier]
    if not earlier or _count_rows(make(before)) <= _count_rows(make(kept)):
        return kept, ""
    return before, f"\n\n{_describe(earlier)}"


def split_missing(results: List[Result]) -> Tuple[List[Result], List[Result]]:
    """RETURNS (Tuple[List[Result], List[Result]]): Results without a biLM or of the weights in use; and those of
    earlier weights whose task, condition and share nothing else has.
    """
    kept, earlier = split_earlier(results)
    measured = {_group(result) for result in kept}
    return kept, [result for result in earlier if _group(result) not in measured]


def split_earlier(results: List[Result]) -> Tuple[List[Result], List[Result]]:
    """RETURNS (Tuple[List[Result], List[Result]]): Results without a biLM or of the weights in use; of the others,
    those of the newest weights of each biLM.
    """
    kept, others = split_by_weights(results)
    newest = {result["settings"].get("bilm"): result for result in sorted(others, key=_finished_at)}
    return kept, [result for result in others if _digest(result) == _digest(newest[result["settings"].get("bilm")])]


def _describe(results: Iterable[Result]) -> str:
    return " ".join(dict.fromkeys(describe_earlier(result["settings"]) for result in results))


def _count_rows(content: Optional[str]) -> int:
    return sum(line.startswith("|") for line in (content or "").splitlines())


def _group(result: Result) -> Tuple[Any, ...]:
    return tuple(result["settings"][name] for name in ("task", "condition", "share"))


def _digest(result: Result) -> Optional[str]:
    digest: Optional[str] = result["settings"].get("bilm_digest")
    return digest


def _finished_at(result: Result) -> str:
    return str(result.get("finished_at", ""))
