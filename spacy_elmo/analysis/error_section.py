"""The section of a report on errors: how many ELMo fixed and introduced, and where, in their sentences."""

from typing import Iterator, List, Sequence, Tuple

from .answers import QUESTIONS, Answer, DocAnswers
from .error_changes import Changes, Place
from .page_parts import make_table, to_html

N_SHOWN = 30  # places of a kind
N_LABELS = 15
N_AROUND = 25  # tokens of a sentence on each side of a place
ROWS = ("with ELMo", "without ELMo", "difference", "95 % interval", "fixed", "introduced", "both right", "both wrong")
INTRODUCTION = (
    "Both pipelines were run on {n_docs:,} Docs, {n_words:,} tokens. An error is <i>fixed</i> where only the pipeline "
    "with ELMo is right, and <i>introduced</i> where only the one without is. The interval is a bootstrap over "
    "{n_units:,} sentences (Docs without sentence boundaries count as one); it does not cover other seeds."
)


def render_changes(changes: Sequence[Changes], docs: Sequence[DocAnswers], data: object) -> str:
    """changes (Sequence[Changes]): Per question.
    docs (Sequence[DocAnswers]): The data.
    data (object): Name of the data.
    RETURNS (str): A table of scores with intervals and numbers of errors as HTML, empty without changes.
    """
    if not changes:
        return ""
    text = INTRODUCTION.format(
        n_docs=len(docs),
        n_words=sum(len(doc.words) for doc in docs),
        n_units=changes[0].difference.n,
    )
    columns = [_make_column(change) for change in changes]
    header = ["", *(f"{QUESTIONS[change.name].title}, {name_score(change)}" for change in changes)]
    table = make_table(header, [[name, *cells] for name, *cells in zip(ROWS, *columns)])
    return f"<h3>On {to_html(data)}</h3>\n<p>{text}</p>\n{table}"


def render_errors(changes: Sequence[Changes], docs: Sequence[DocAnswers]) -> str:
    """changes (Sequence[Changes]): Per question.
    docs (Sequence[DocAnswers]): With the words.
    RETURNS (str): Errors in their sentences as HTML, empty without changes.
    """
    return "\n".join(_render_question(change, docs) for change in changes)


def name_score(change: Changes) -> str:
    """RETURNS (str): F1 of entities; of tags, with one answer per token, F1 is the accuracy."""
    return "F1" if change.name == "ents" else "accuracy"


def format_difference(value: float) -> str:
    """RETURNS (str): Points of a percentage, with their sign: "+18.27"."""
    return f"{value * 100:+.2f}".replace("-", "\u2212")


def format_interval(change: Changes) -> str:
    """RETURNS (str): Of the difference: "+9.8 to +26.5"."""
    return f"{format_difference(change.difference.low)} to {format_difference(change.difference.high)}"


def _make_column(change: Changes) -> List[str]:
    scores = [f"{change.ours * 100:.2f}", f"{change.theirs * 100:.2f}", format_difference(change.difference.value)]
    counts = [len(change.fixed), len(change.made), change.n_both_right, change.n_both_wrong]
    return [*scores, format_interval(change), *(f"{count:,}" for count in counts)]


def _render_question(change: Changes, docs: Sequence[DocAnswers]) -> str:
    title = QUESTIONS[change.name].title
    labels = change.by_label()
    rows = [[to_html(label), f"{fixed:,}", f"{made:,}"] for label, fixed, made in labels[:N_LABELS]]
    table = make_table(("right label", "fixed", "introduced"), rows) if rows else "<p>There is no difference.</p>"
    more = f'<p class="small">{len(labels) - N_LABELS} more labels.</p>' if len(labels) > N_LABELS else ""
    kinds = (("fixed", change.fixed), ("introduced", change.made))
    lists = "".join(_render_list(kind, places, docs, is_open=change.name == "ents") for kind, places in kinds)
    return f"<h3>{title}</h3>{table}{more}{lists}"


def _render_list(kind: str, places: Sequence[Place], docs: Sequence[DocAnswers], *, is_open: bool) -> str:
    if not places:
        return f"<p>No error was {kind}.</p>"
    shown = _spread_out(places)
    note = "" if len(shown) == len(places) else f", {len(shown)} of them shown, evenly over the data"
    errors = "error" if len(places) == 1 else "errors"
    items = "".join(f"<li>{_render_place(place, docs[place.doc])}</li>" for place in shown)
    summary = f"<summary>{len(places):,} {errors} {kind} by ELMo{note}</summary>"
    return f'<details{" open" if is_open else ""}>{summary}<ol class="places {kind}">{items}</ol></details>'


def _spread_out(places: Sequence[Place]) -> Sequence[Place]:
    n = len(places)
    return places if n <= N_SHOWN else [places[i * n // N_SHOWN] for i in range(N_SHOWN)]


def _render_place(place: Place, doc: DocAnswers) -> str:
    is_fixed = place.ours == place.gold
    rows = [
        ("right, with ELMo" if is_fixed else "right, without", _render_answers(place.gold, doc)),
        ("without" if is_fixed else "with ELMo", _render_wrong(place.theirs if is_fixed else place.ours, doc)),
    ]
    answers = "".join(f"<dt>{name}</dt><dd>{found}</dd>" for name, found in rows)
    return f'<div class="context">{_render_context(place, doc)}</div><dl>{answers}</dl>'


def _render_wrong(answers: Tuple[Answer, ...], doc: DocAnswers) -> str:
    return f'<span class="wrong">{_render_answers(answers, doc)}</span>'


def _render_answers(answers: Tuple[Answer, ...], doc: DocAnswers) -> str:
    parts = [
        f'{to_html(" ".join(doc.words[start:end]))} <span class="label">{to_html(label)}</span>'
        for start, end, label in answers
    ]
    return "; ".join(parts) or "nothing"


def _render_context(place: Place, doc: DocAnswers) -> str:
    """The sentences of a place, the place marked, long ones cut."""
    first = max((start for start in doc.starts if start <= place.start), default=0)
    last = min((start for start in doc.starts if start >= place.end), default=len(doc.words))
    low, high = max(first, place.start - N_AROUND), min(last, place.end + N_AROUND)
    parts = ["\u2026"] if low > first else []
    marked = " ".join(_escape(doc.words[place.start : place.end]))
    parts += [*_escape(doc.words[low : place.start]), f"<mark>{marked}</mark>", *_escape(doc.words[place.end : high])]
    parts += ["\u2026"] if high < last else []
    return " ".join(parts)


def _escape(words: Sequence[str]) -> Iterator[str]:
    return (to_html(word) for word in words)
