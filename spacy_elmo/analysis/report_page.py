"""The page of a report on a training: one HTML file without outside assets, readable on a phone and in print."""

from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from spacy.util import Config

from .answers import QUESTIONS, Answer, Changes, DocAnswers, Place, Scored
from .layer_weights import name_layers, name_mixes
from .pages import draw_key, draw_lines, draw_shares, make_page, make_section, make_table, to_html
from .report import METRICS, TITLES, BiLMFacts, Row, Spread, TrainingReport

VARIANTS = ("with ELMo", "without ELMo")
N_FINDINGS = 3  # scores named at the top, if there is no comparison of errors
N_CURVES = 4  # scores that have a curve, besides the weighted sum
N_SHOWN = 30  # places of a kind
N_LABELS = 15
N_AROUND = 25  # tokens of a sentence on each side of a place
CHANGES = (
    "with ELMo",
    "without ELMo",
    "difference",
    "95 % interval",
    "fixed",
    "introduced",
    "both right",
    "both wrong",
)
# Of the pipelines on the data.
RUN_ON = " on {n_docs:,} Docs, {n_words:,} tokens. "
FIXED = (
    "An error is <i>fixed</i> where only the pipeline with ELMo is right, and <i>introduced</i> where only the one "
    "without is. "
)
INTERVAL = (
    "The interval is a bootstrap over {n_units:,} sentences (Docs without sentence boundaries count as one); it does "
    "not cover other seeds."
)


def render_report(report: TrainingReport) -> str:
    """RETURNS (str): A page of HTML; all text is escaped."""
    title = f"Training report: {report.output.path.resolve().name}"
    findings = "".join(f'<p class="finding">{to_html(line)}</p>' for line in summarize(report))
    notes = "".join(f"<li>{to_html(note)}</li>" for note in report.notes)
    data = report.data.name if report.data is not None else ""
    changes = render_changes(report.changes, report.docs, data) + render_scored(report.scored, report.docs, data)
    notes = f'<div class="notes"><b>What is uncertain</b><ul>{notes}</ul></div>' if notes else ""
    hints = "".join(f"<li>{to_html(hint)}</li>" for hint in report.hints)
    parts = [
        f"<h1>{to_html(title)}</h1>\n{findings}",
        notes,
        make_section("Scores", _render_scores(report), changes),
        make_section("Layer weights", _render_mixes(report)),
        make_section("Curves", _render_curves(report)),
        make_section("Errors fixed and introduced", render_errors(report.changes, report.docs)),
        make_section("Errors", *(_render_wrong(scored, report.docs) for scored in report.scored)),
        make_section("Settings", _render_settings(report)),
        make_section("What would add to this page", f"<ul>{hints}</ul>" if hints else ""),
    ]
    return make_page(title, parts)


def summarize(report: TrainingReport) -> List[str]:
    """RETURNS (List[str]): Differences or scores with their intervals where there are data, else means."""
    if report.changes or report.scored:
        return [*map(_summarize, report.changes), *(_summarize_one(scored, report.data) for scored in report.scored)]
    rows = [row for row in report.scores if row.ours is not None][:N_FINDINGS]
    place, texts = "" if report.source == METRICS else " on the development data", []
    for row in rows:
        n_seeds, gain = 0 if row.ours is None else row.ours.n, row.difference
        seeds = f", mean of {n_seeds} seeds" if n_seeds > 1 else ""
        versus = "" if gain is None else f", {format_difference(gain)} points against the baseline"
        texts += [f"{row.name} {row.ours.mean:.2%}{place}{seeds}{versus}."] if row.ours is not None else []
    return texts or [f"No scores are known: '{report.output.pipeline}' has none in its meta.json."]


def _summarize_one(scored: Scored, data: object) -> str:
    n, interval = len(scored.wrong), f"{scored.score.low * 100:.1f} to {scored.score.high * 100:.1f}"
    score = f"{QUESTIONS[scored.name].title}: {name_score(scored)} {scored.score.value:.2%}"
    return f"{score} (95 % interval {interval}) on {data}; {n:,} {'error' if n == 1 else 'errors'}."


def _summarize(change: Changes) -> str:
    is_open = change.difference.low <= 0 <= change.difference.high
    doubt = ", which includes 0: the data cannot tell the two apart" if is_open else ""
    difference = f"{format_difference(change.difference.value)} points (95 % interval {format_interval(change)}"
    score = f"{QUESTIONS[change.name].title}: {name_score(change)} {change.ours:.2%}"
    return (
        f"{score} with ELMo, {change.theirs:.2%} without, "
        f"{difference}{doubt}); "
        f"{len(change.fixed):,} {'error' if len(change.fixed) == 1 else 'errors'} fixed, "
        f"{len(change.made):,} introduced."
    )


def _render_scores(report: TrainingReport) -> str:
    if not report.scores:
        return ""
    rows = []
    for row in report.scores:
        difference = "\u2013" if row.difference is None else format_difference(row.difference)
        beside = [] if report.baseline is None else [_format(row.theirs), difference]
        rows.append([to_html(row.name), _format(row.ours), *beside])
    counts = [len(report.runs), len(report.baseline_runs)]
    seeds = ", ".join(f"{n} {'seed' if n == 1 else 'seeds'} {name}" for n, name in zip(counts, VARIANTS) if n)
    spread = "; mean \u00b1 sample standard deviation" if max(counts) > 1 else ""
    is_tested = report.source == METRICS
    source = "metrics.json of <code>spacy evaluate</code>" if is_tested else "meta.json, on the development data"
    note = f'<p class="small">Percent, from {source}: {seeds}{spread}.</p>'
    header = ("", "score") if report.baseline is None else ("", *VARIANTS, "difference")
    return make_table(header, rows) + note + _render_seconds(report)


def _render_seconds(report: TrainingReport) -> str:
    outputs = (report.runs, report.baseline_runs)
    times = [[run.elapsed_s for run in runs if run.elapsed_s is not None] for runs in outputs]
    texts = [f"{sum(found) / len(found):,.0f} s {name}" for found, name in zip(times, VARIANTS) if found]
    return f'<p class="small">Time of a training: {", ".join(texts)}.</p>' if texts else ""


def _format(spread: Optional[Spread]) -> str:
    if spread is None:
        return "\u2013"
    return f"{spread.mean * 100:.2f}" + ("" if spread.std is None else f" \u00b1 {spread.std * 100:.2f}")


def _render_mixes(report: TrainingReport) -> str:
    if not report.mixes:
        return ""
    figures = [
        f"<figure><figcaption><b>{to_html(name)}</b>, \u03b3 = {mix.gamma:.2f}</figcaption>"
        f"{draw_shares(mix.shares, label='Shares of the layers: ' + _list_shares(mix.shares))}</figure>"
        for name, mix in zip(name_mixes(report.mixes), report.mixes)
    ]
    names = name_layers(max(len(mix.shares) for mix in report.mixes))
    text = "How much each component takes of each layer: softmax(w) and \u03b3 of Peters et al. (2018), eq. 1."
    return _arrange(text, draw_key(names, is_lines=False), figures)


def _list_shares(shares: Sequence[float]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in zip(name_layers(len(shares)), shares))


def _render_curves(report: TrainingReport) -> str:
    outputs = zip(VARIANTS, (report.output, report.baseline))
    logs = [(name, output.score_log) for name, output in outputs if output is not None]
    names = _find_logged([rows for _, rows in logs])
    figures = [_draw_score(name, logs) for name in names]
    courses = [_draw_course(component, number, rows) for (component, number), rows in report.output.weight_log.items()]
    parts = []
    if figures:
        key = draw_key([name for name, rows in logs if rows], is_lines=True)
        parts.append(_arrange("Scores on the development data at each evaluation.", key, figures))
    if courses:
        n_layers = max(len(rows[0]["shares"]) for rows in report.output.weight_log.values())
        key = draw_key(name_layers(n_layers), is_lines=True)
        parts.append(_arrange("Layer weights over the training.", key, courses))
    return "".join(parts)


def _arrange(text: str, key: str, figures: Sequence[str]) -> str:
    return f'<p>{text}</p>{key}<div class="figures">{"".join(figures)}</div>'


def _find_logged(logs: Sequence[Sequence[Row]]) -> List[str]:
    """Scores that are not always zero; "" is the weighted sum. Precision and recall are left out."""
    rows = [row for log in logs for row in log]
    if not rows:
        return []
    found = {name for row in rows for name in row["scores"] if _percent(row, name) > 0}
    found = {name for name in found if not name.endswith(("_p", "_r"))}
    ordered = [*(name for name in TITLES if name in found), *sorted(found - TITLES.keys() - {"speed"})]
    return ["", *ordered][: N_CURVES + 1]


def _percent(row: Row, name: str) -> float:
    value = row["score"] * 100 if not name else row["scores"].get(name)
    return float(value) if isinstance(value, (int, float)) else float("nan")


def _draw_score(name: str, logs: Sequence[Tuple[str, Sequence[Row]]]) -> str:
    lines = [(label, [(row["step"], _percent(row, name)) for row in rows]) for label, rows in logs if rows]
    best = [f"{max((y for _, y in points if y >= 0), default=0.0):.1f} {label}" for label, points in lines]
    title = "Weighted sum of scores" if not name else TITLES.get(name, name)
    caption = f"{title}: at best {', '.join(best)}"
    chart = draw_lines(lines, label=caption)
    return f"<figure><figcaption>{to_html(caption)}</figcaption>{chart}</figure>"


def _draw_course(component: str, number: int, rows: Sequence[Row]) -> str:
    n_layers = len(rows[0]["shares"])
    lines = [
        (name, [(row["step"], row["shares"][layer] * 100) for row in rows])
        for layer, name in enumerate(name_layers(n_layers))
    ]
    place = rows[0].get("place") or (f"mix {number}" if number > 1 else "")
    caption = f"{component}{f' ({place})' if place else ''}, at the end: {_list_shares(rows[-1]['shares'])}"
    chart = draw_lines(lines, label=caption)
    return f"<figure><figcaption>{to_html(caption)}</figcaption>{chart}</figure>"


def _render_settings(report: TrainingReport) -> str:
    output = report.output
    facts = [("Pipeline", output.pipeline), ("Components", ", ".join(output.meta.get("pipeline") or []))]
    facts += [("Baseline", report.baseline.pipeline)] if report.baseline is not None else []
    facts += [("Seeds", ", ".join(run.name for run in report.runs))] if report.runs else []
    for bilm in report.bilms:
        facts += _describe_bilm(bilm)
    facts.append(("spaCy required", output.meta.get("spacy_version", "not known")))
    facts.append(("Report written by", ", ".join(f"{name} {version}" for name, version in report.versions.items())))
    rows = [[to_html(name), to_html(fact.as_posix() if isinstance(fact, Path) else fact)] for name, fact in facts]
    config = Config(output.config).to_str(interpolate=False)
    text = f"<details><summary>The whole config</summary><pre>{to_html(config)}</pre></details>"
    return make_table((), rows, kind="facts") + text


def _describe_bilm(bilm: BiLMFacts) -> List[Tuple[str, object]]:
    meta: Dict[str, Any] = bilm.meta
    corpus = meta.get("corpus")
    trained_on = corpus if isinstance(corpus, str) else (corpus or {}).get("name", "not known")
    tokens = corpus.get("tokens") if isinstance(corpus, dict) else None
    version = meta.get("version", "not known")
    now = f", whose weights are sha256 {bilm.source_digest} now" if bilm.source_digest else ""
    size = f"{bilm.n_parameters:,} parameters, sha256 of its native form {bilm.digest}"
    return [
        (f"biLM of '{bilm.component}'", f"{bilm.name or 'without a name'}, version {version}: {size}"),
        ("Read from", f"{bilm.source or 'not known'}{now}"),
        ("Pretrained on", f"{trained_on}{f', {tokens:,} tokens' if isinstance(tokens, int) else ''}"),
        ("Licence", meta.get("license", "not known")),
    ]


def render_changes(changes: Sequence[Changes], docs: Sequence[DocAnswers], data: object) -> str:
    """RETURNS (str): A table of scores with intervals and numbers of errors as HTML, empty without changes."""
    if not changes:
        return ""
    text = _introduce("Both pipelines were run", FIXED, docs, changes[0].difference.n)
    columns = [_make_column(change) for change in changes]
    header = ["", *(f"{QUESTIONS[change.name].title}, {name_score(change)}" for change in changes)]
    table = make_table(header, [[name, *cells] for name, *cells in zip(CHANGES, *columns)])
    return f"<h3>On {to_html(data)}</h3>\n<p>{text}</p>\n{table}"


def render_scored(scored: Sequence[Scored], docs: Sequence[DocAnswers], data: object) -> str:
    """RETURNS (str): A table of scores with intervals and numbers of errors as HTML, empty without scores."""
    if not scored:
        return ""
    rows = []
    for one in scored:
        low, high = one.score.low * 100, one.score.high * 100
        cells = f"{one.score.value * 100:.2f}", f"{low:.1f} to {high:.1f}", f"{len(one.right):,}", f"{len(one.wrong):,}"
        rows.append([f"{QUESTIONS[one.name].title}, {name_score(one)}", *cells])
    table = make_table(("", "score", "95 % interval", "right", "wrong"), rows)
    text = _introduce("The pipeline was run", "", docs, scored[0].score.n)
    return f"<h3>On {to_html(data)}</h3>\n<p>{text}</p>\n{table}"


def _introduce(run: str, more: str, docs: Sequence[DocAnswers], n_units: int) -> str:
    text = run + RUN_ON + more + INTERVAL
    return text.format(n_docs=len(docs), n_words=sum(len(doc.words) for doc in docs), n_units=n_units)


def render_errors(changes: Sequence[Changes], docs: Sequence[DocAnswers]) -> str:
    """RETURNS (str): Errors in their sentences as HTML, empty without changes."""
    return "\n".join(_render_question(change, docs) for change in changes)


def name_score(found: Union[Changes, Scored]) -> str:
    """RETURNS (str): F1 of entities; of tags, with one answer per token, F1 is the accuracy."""
    return "F1" if found.name == "ents" else "accuracy"


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
    table = _render_labels(change, ("right label", "fixed", "introduced"))
    kinds = (("fixed", change.fixed), ("introduced", change.made))
    is_open = change.name == "ents"
    lists = "".join(_render_list(kind, f" {kind} by ELMo", places, docs, is_open=is_open) for kind, places in kinds)
    return table + lists


def _render_wrong(scored: Scored, docs: Sequence[DocAnswers]) -> str:
    table = _render_labels(scored, ("right label", "right", "wrong"))
    return table + _render_list("introduced", "", scored.wrong, docs, is_open=scored.name == "ents")


def _render_labels(found: Union[Changes, Scored], header: Sequence[str]) -> str:
    labels = found.by_label()
    rows = [[to_html(label), f"{one:,}", f"{other:,}"] for label, one, other in labels[:N_LABELS]]
    table = make_table(header, rows) if rows else "<p>There is no difference.</p>"
    more = f'<p class="small">{len(labels) - N_LABELS} more labels.</p>' if len(labels) > N_LABELS else ""
    return f"<h3>{QUESTIONS[found.name].title}</h3>{table}{more}"


def _render_list(kind: str, of: str, places: Sequence[Place], docs: Sequence[DocAnswers], *, is_open: bool) -> str:
    if not places:
        return f"<p>No error was {kind}.</p>" if of else "<p>There is no error.</p>"
    n = len(places)
    shown = places if n <= N_SHOWN else [places[i * n // N_SHOWN] for i in range(N_SHOWN)]
    note = "" if len(shown) == n else f", {len(shown)} of them shown, evenly over the data"
    errors = "error" if n == 1 else "errors"
    items = "".join(f"<li>{_render_place(place, docs[place.doc], is_compared=bool(of))}</li>" for place in shown)
    summary = f"<summary>{n:,} {errors}{of}{note}</summary>"
    return f'<details{" open" if is_open else ""}>{summary}<ol class="places {kind}">{items}</ol></details>'


def _render_place(place: Place, doc: DocAnswers, *, is_compared: bool) -> str:
    is_fixed = place.ours == place.gold
    names = ("right", "found")
    if is_compared:
        names = ("right, with ELMo", "without") if is_fixed else ("right, without", "with ELMo")
    right = _render_answers(place.gold, doc)
    wrong = _render_answers(place.theirs if is_fixed else place.ours, doc)
    answers = f'<dt>{names[0]}</dt><dd>{right}</dd><dt>{names[1]}</dt><dd><span class="wrong">{wrong}</span></dd>'
    return f'<div class="context">{_render_context(place, doc)}</div><dl>{answers}</dl>'


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
    words = [to_html(word) for word in doc.words]
    marked = " ".join(words[place.start : place.end])
    parts += [*words[low : place.start], f"<mark>{marked}</mark>", *words[place.end : high]]
    parts += ["\u2026"] if high < last else []
    return " ".join(parts)
