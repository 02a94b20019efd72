"""The page of a report on a training: one HTML file without outside assets, readable on a phone and in print."""

from pathlib import Path
from statistics import mean, stdev
from typing import List, Optional, Sequence, Tuple

from spacy.util import Config

from ..pipeline.layer_weights import describe_concatenated
from .answers import Answer, Disagreement, DocAnswers, Outcome, Question, get_question
from .layer_weight_plots import name_layers, name_mixes
from .pages import draw_key, draw_lines, draw_share_bar, make_page, make_section, make_table, to_html
from .report import METRICS, ReportRow, TrainingReport, name_score, order_scores
from .report_advice import format_points

VARIANTS = ("with ELMo", "without ELMo")
N_FINDINGS = 3  # scores named at the top, if there is no comparison of errors
N_CURVES = 4  # scores that have a curve, besides the weighted sum
N_SHOWN = 30  # places of a kind
N_LABELS = 15
N_AROUND = 25  # tokens of a sentence on each side of a place
N_SIDE = 8  # tokens at each end of a long answer
CHANGES = (*VARIANTS, "difference", "95 % interval", "fixed", "introduced", "both right", "both wrong")
ALONE = ("score", "95 % interval", "right", "wrong")  # without a baseline


def render_report(report: TrainingReport) -> str:
    """RETURNS (str): A page of HTML; all text is escaped."""
    title = f"Training report: {report.output.path.resolve().name}"
    findings = "".join(f'<p class="finding">{to_html(line)}</p>' for line in summarize_report(report))
    notes = "".join(f"<li>{'<br>'.join(map(to_html, note.splitlines()))}</li>" for note in report.notes)
    data = report.data.name if report.data is not None else ""
    notes = f'<div class="notes"><b>What is uncertain</b><ul>{notes}</ul></div>' if notes else ""
    hints = "".join(f"<li>{to_html(hint)}</li>" for hint in report.hints)
    errors = render_errors(report.outcomes, report.docs)
    advice = "".join(f"<li>{to_html(line)}</li>" for line in report.advice)
    advice = f'<div class="notes"><b>Where ELMo does not help</b><ul>{advice}</ul></div>' if advice else ""
    sections = [
        f"<h1>{to_html(title)}</h1>\n{findings}",
        advice,
        notes,
        make_section("Scores", _render_scores(report), render_outcomes(report.outcomes, report.docs, data)),
        make_section("Layer weights", _render_mixes(report)),
        make_section("Curves", _render_curves(report)),
        make_section(f"Errors{'' if report.baseline is None else ' fixed and introduced'}", errors),
        make_section("Settings", _render_settings(report)),
        make_section("What would add to this page", f"<ul>{hints}</ul>" if hints else ""),
    ]
    return make_page(title, sections, kind="report")


def summarize_report(report: TrainingReport) -> List[str]:
    """RETURNS (List[str]): Differences or scores with their intervals where there are data, else means."""
    if report.outcomes:
        return [_summarize(outcome, report.data) for outcome in report.outcomes]
    place, texts = "" if report.source == METRICS else " on the development data", []
    for name, (ours, theirs) in [item for item in report.scores.items() if item[1][0]][:N_FINDINGS]:
        seeds = f", mean of {len(ours)} seeds" if len(ours) > 1 else ""
        versus = f", {format_points(mean(ours) - mean(theirs))} points against the baseline" if theirs else ""
        texts.append(f"{name} {mean(ours):.2%}{place}{seeds}{versus}.")
    return texts or [f"No scores are known: '{report.output.pipeline}' has none in its meta.json."]


def _summarize(outcome: Outcome, data: object) -> str:
    n_one, n_other = map(len, outcome.listed)
    score_text = f"{get_question(outcome.name).score_name} {outcome.ours:.2%}"
    if outcome.theirs is None:
        return f"{score_text} (95 % interval {_format_interval(outcome)}) on {data}; {_count_errors(n_other)}."
    is_open = outcome.score.low <= 0 <= outcome.score.high
    doubt = ", which includes 0: the difference is not significant" if is_open else ""
    difference = f"{format_points(outcome.score.value)} points (95 % interval {_format_interval(outcome)}{doubt})"
    versus = f"{outcome.theirs:.2%} without, {difference}"
    return f"{score_text} with ELMo, {versus}; {_count_errors(n_one)} fixed, {n_other:,} introduced."


def _count_errors(n: int) -> str:
    return f"{n:,} {'error' if n == 1 else 'errors'}"


def _render_scores(report: TrainingReport) -> str:
    if not report.scores:
        return ""
    has_baseline = report.baseline is not None
    rows = []
    for name, (ours, theirs) in report.scores.items():
        difference = format_points(mean(ours) - mean(theirs)) if ours and theirs else "\u2013"
        rows.append([to_html(name), _format(ours), *([_format(theirs), difference] if has_baseline else [])])
    counts = [len(report.seeds), len(report.baseline_seeds)]
    seeds = ", ".join(f"{n} {'seed' if n == 1 else 'seeds'} {name}" for n, name in zip(counts, VARIANTS) if n)
    spread = "; mean \u00b1 sample standard deviation" if max(counts) > 1 else ""
    is_tested = report.source == METRICS
    source = "metrics.json of <code>spacy evaluate</code>" if is_tested else "meta.json, on the development data"
    note = f'<p class="small">Percent, from {source}: {seeds}{spread}.</p>'
    header = ("", *VARIANTS, "difference") if has_baseline else ("", "score")
    return make_table(header, rows) + note + _render_seconds(report)


def _render_seconds(report: TrainingReport) -> str:
    outputs = (report.seeds, report.baseline_seeds)
    times = [[seed.elapsed_s for seed in seeds if seed.elapsed_s is not None] for seeds in outputs]
    texts = [f"{sum(seconds) / len(seconds):,.0f} s {name}" for seconds, name in zip(times, VARIANTS) if seconds]
    return f'<p class="small">Time of a training: {", ".join(texts)}.</p>' if texts else ""


def _format(values: Sequence[float]) -> str:
    if not values:
        return "not scored"
    return f"{mean(values) * 100:.2f}" + (f" \u00b1 {stdev(values) * 100:.2f}" if len(values) > 1 else "")


def _render_mixes(report: TrainingReport) -> str:
    if not report.mixes:
        return ""
    named = list(zip(name_mixes(report.mixes), report.mixes))
    figures = [
        f"<figure><figcaption><b>{to_html(name)}</b>, \u03b3 = {mix.gamma:.2f}</figcaption>"
        f"{draw_share_bar(mix.shares, label='Shares of the layers: ' + _list_shares(mix.shares))}</figure>"
        for name, mix in named
        if not mix.is_concatenated
    ]
    lines = [f"<p>{to_html(describe_concatenated(name, mix))}</p>" for name, mix in named if mix.is_concatenated]
    if not figures:
        return "".join(lines)
    names = name_layers(max(len(mix.shares) for mix in report.mixes))
    text = "How much each component takes of each layer: softmax(w) and \u03b3 of Peters et al. (2018), eq. 1."
    return _arrange(text, draw_key(names, is_lines=False), figures) + "".join(lines)


def _list_shares(shares: Sequence[float]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in zip(name_layers(len(shares)), shares))


def _render_curves(report: TrainingReport) -> str:
    outputs = zip(VARIANTS, (report.output, report.baseline))
    logs = [(name, output.score_log) for name, output in outputs if output is not None]
    names = _find_logged([rows for _, rows in logs], report.categories)
    figures = [_draw_score(name, logs, report.categories) for name in names]
    weight_log = report.output.weight_log
    courses = [_draw_course(component, mix_number, rows) for (component, mix_number), rows in weight_log.items()]
    charts = []
    if figures:
        key = draw_key([name for name, rows in logs if rows], is_lines=True)
        charts.append(_arrange("Scores on the development data at each evaluation.", key, figures))
    if courses:
        mixture_size = max(len(rows[0]["shares"]) for rows in weight_log.values())
        key = draw_key(name_layers(mixture_size), is_lines=True)
        charts.append(_arrange("Layer weights over the training.", key, courses))
    return "".join(charts)


def _arrange(text: str, key: str, figures: Sequence[str]) -> str:
    return f'<p>{text}</p>{key}<div class="figures">{"".join(figures)}</div>'


def _find_logged(logs: Sequence[Sequence[ReportRow]], categories: Optional[str]) -> List[str]:
    """Scores that are not always zero; "" is the weighted sum. Precision and recall are left out."""
    rows = [row for log in logs for row in log]
    if not rows:
        return []
    logged = {name for row in rows for name in row["scores"] if _percent(row, name) > 0}
    logged = {name for name in logged if not name.endswith(("_p", "_r"))}
    return ["", *order_scores(logged - {"speed"}, categories)][: N_CURVES + 1]


def _percent(row: ReportRow, name: str) -> float:
    value = row["score"] * 100 if not name else row["scores"].get(name)
    return float(value) if isinstance(value, (int, float)) else float("nan")


def _draw_score(name: str, logs: Sequence[Tuple[str, Sequence[ReportRow]]], categories: Optional[str]) -> str:
    lines = [(label, [(row["step"], _percent(row, name)) for row in rows]) for label, rows in logs if rows]
    best = [f"{max((y for _, y in points if y >= 0), default=0.0):.1f} {label}" for label, points in lines]
    title = name_score(name, categories) if name else "Weighted sum of scores"
    caption = f"{title}: at best {', '.join(best)}"
    chart = draw_lines(lines, label=caption)
    return f"<figure><figcaption>{to_html(caption)}</figcaption>{chart}</figure>"


def _draw_course(component: str, mix_number: int, rows: Sequence[ReportRow]) -> str:
    mixture_size = len(rows[0]["shares"])
    lines = [
        (name, [(row["step"], row["shares"][layer] * 100) for row in rows])
        for layer, name in enumerate(name_layers(mixture_size))
    ]
    place = rows[0].get("place") or (f"mix {mix_number}" if mix_number > 1 else "")
    caption = f"{component}{f' ({place})' if place else ''}, at the end: {_list_shares(rows[-1]['shares'])}"
    chart = draw_lines(lines, label=caption)
    return f"<figure><figcaption>{to_html(caption)}</figcaption>{chart}</figure>"


def _render_settings(report: TrainingReport) -> str:
    output = report.output
    facts = [("Pipeline", output.pipeline), ("Components", ", ".join(output.meta.get("pipeline") or []))]
    facts += [("Baseline", report.baseline.pipeline)] if report.baseline is not None else []
    facts += [("Seeds", ", ".join(seed.name for seed in report.seeds))] if report.seeds else []
    facts += report.bilms
    facts.append(("spaCy required", output.meta.get("spacy_version", "not known")))
    facts.append(("Report written by", ", ".join(f"{name} {version}" for name, version in report.versions.items())))
    rows = [[to_html(name), to_html(fact.as_posix() if isinstance(fact, Path) else fact)] for name, fact in facts]
    config = Config(output.config).to_str(interpolate=False)
    text = f"<details><summary>The whole config</summary><pre>{to_html(config)}</pre></details>"
    return make_table((), rows, kind="facts") + text


def render_outcomes(outcomes: Sequence[Outcome], docs: Sequence[DocAnswers], data: object) -> str:
    """RETURNS (str): A table of scores with intervals and numbers of errors as HTML, empty without outcomes."""
    if not outcomes:
        return ""
    has_baseline, n_words = outcomes[0].theirs is not None, sum(len(doc.words) for doc in docs)
    rows: Sequence[str] = ALONE
    pipelines, more = "The pipeline was", ""
    if has_baseline:
        rows, pipelines = CHANGES, "Both pipelines were"
        more = (
            "An error is <i>fixed</i> where only the pipeline with ELMo is right, and <i>introduced</i> where only the "
            "one without is. "
        )
    text = (
        f"{pipelines} run on {len(docs):,} Docs, {n_words:,} tokens. {more}The interval is a bootstrap over "
        f"{_describe_units(outcomes)}; the interval does not cover other seeds."
    )
    header = ["", *(to_html(get_question(outcome.name).score_name) for outcome in outcomes)]
    table = make_table(header, [[name, *cells] for name, *cells in zip(rows, *map(_make_column, outcomes))])
    return f"<h3>On {to_html(data)}</h3>\n<p>{text}</p>\n{table}"


def _describe_units(outcomes: Sequence[Outcome]) -> str:
    is_of_docs = [get_question(outcome.name).is_of_docs for outcome in outcomes]
    if all(is_of_docs):
        accuracy = " (the micro F of one category per Doc is the accuracy)" if len(outcomes) > 1 else ""
        return f"the Docs{accuracy}"
    n_sentences = outcomes[is_of_docs.index(False)].score.n
    units = f"{n_sentences:,} sentences (Docs without sentence boundaries count as one)"
    return f"{units}, for text categories over Docs" if any(is_of_docs) else units


def _make_column(outcome: Outcome) -> List[str]:
    scores, counts = [f"{outcome.ours * 100:.2f}"], [len(places) for places in outcome.listed]
    if outcome.theirs is not None:
        scores += [f"{outcome.theirs * 100:.2f}", format_points(outcome.score.value)]
        counts += [len(outcome.places[is_right, is_right]) for is_right in (True, False)]
    return [*scores, _format_interval(outcome), *(f"{count:,}" for count in counts)]


def _format_interval(outcome: Outcome) -> str:
    if outcome.theirs is None:
        return f"{outcome.score.low * 100:.1f} to {outcome.score.high * 100:.1f}"
    return f"{format_points(outcome.score.low)} to {format_points(outcome.score.high)}"


def render_errors(outcomes: Sequence[Outcome], docs: Sequence[DocAnswers]) -> str:
    """RETURNS (str): Errors in their sentences as HTML, empty without outcomes."""
    sections = []
    listed = [outcome for outcome in outcomes if get_question(outcome.name).has_list]
    for outcome in listed:
        question, is_open = get_question(outcome.name), outcome is listed[0]
        if outcome.theirs is None:
            sections.append(_render_labels(outcome, ("right label", "right", "wrong")))
            sections.append(_render_list(question, "introduced", "", outcome.listed[1], docs, is_open=is_open))
            continue
        sections.append(_render_labels(outcome, ("right label", "fixed", "introduced")))
        for kind, places in zip(("fixed", "introduced"), outcome.listed):
            sections.append(_render_list(question, kind, f" {kind} by ELMo", places, docs, is_open=is_open))
    return "\n".join(sections)


def _render_labels(outcome: Outcome, header: Sequence[str]) -> str:
    labels = outcome.by_label()
    rows = [[to_html(label), *(f"{count:,}" for count in counts)] for label, *counts in labels[:N_LABELS]]
    table = make_table(header, rows) if rows else "<p>There is no difference.</p>"
    more = f'<p class="small">{len(labels) - N_LABELS} more labels.</p>' if len(labels) > N_LABELS else ""
    return f"<h3>{to_html(get_question(outcome.name).title)}</h3>{table}{more}"


def _render_list(
    question: Question, kind: str, of: str, places: Sequence[Disagreement], docs: Sequence[DocAnswers], *, is_open: bool
) -> str:
    if not places:
        return f"<p>No error was {kind}.</p>" if of else "<p>There is no error.</p>"
    n = len(places)
    shown = places if n <= N_SHOWN else [places[i * n // N_SHOWN] for i in range(N_SHOWN)]
    note = "" if len(shown) == n else f", {len(shown)} of them shown, evenly over the data"
    names = ("right", "found")
    if of:
        names = ("right, with ELMo", "without") if kind == "fixed" else ("right, without", "with ELMo")
    items = "".join(
        f"<li>{_render_place(question, place, docs[place.doc], names, is_fixed=kind == 'fixed')}</li>"
        for place in shown
    )
    summary = f"<summary>{_count_errors(n)}{of}{note}</summary>"
    return f'<details{" open" if is_open else ""}>{summary}<ol class="places {kind}">{items}</ol></details>'


def _render_place(
    question: Question, place: Disagreement, doc: DocAnswers, names: Tuple[str, str], *, is_fixed: bool
) -> str:
    """names (Tuple[str, str]): Headings of the right answers, and of the wrong ones."""
    right = _render_answers(question, place.gold, doc)
    wrong = _render_answers(question, place.theirs if is_fixed else place.ours, doc)
    answers = f'<dt>{names[0]}</dt><dd>{right}</dd><dt>{names[1]}</dt><dd><span class="wrong">{wrong}</span></dd>'
    return f'<div class="context">{_render_context(question, place, doc)}</div><dl>{answers}</dl>'


def _render_answers(question: Question, answers: Tuple[Answer, ...], doc: DocAnswers) -> str:
    texts = [
        "" if question.is_of_docs else _join_words(doc.words[start:end], N_SIDE) + " " for start, end, _ in answers
    ]
    labels = [f'<span class="label">{to_html(label)}</span>' for _, _, label in answers]
    return "; ".join(map("".join, zip(texts, labels))) or "nothing"


def _render_context(question: Question, place: Disagreement, doc: DocAnswers) -> str:
    """The sentences of a place, shortened around it, with the place marked; the beginning and the end of a Doc."""
    if question.is_of_docs:
        return _join_words(doc.words, N_AROUND)
    first = max((start for start in doc.starts if start <= place.start), default=0)
    last = min((start for start in doc.starts if start >= place.end), default=len(doc.words))
    low, high = max(first, place.start - N_AROUND), min(last, place.end + N_AROUND)
    words_shown = ["\u2026"] if low > first else []
    words = [to_html(word) for word in doc.words]
    marked = _join_words(doc.words[place.start : place.end], N_AROUND)
    words_shown += [*words[low : place.start], f"<mark>{marked}</mark>", *words[place.end : high]]
    words_shown += ["\u2026"] if high < last else []
    return " ".join(words_shown)


def _join_words(words: Sequence[str], n_side: int) -> str:
    """RETURNS (str): Words as HTML; of more than twice `n_side` those at both ends."""
    ends = words if len(words) <= 2 * n_side else (*words[:n_side], "\u2026", *words[-n_side:])
    return to_html(" ".join(ends))
