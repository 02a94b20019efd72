"""Change of senses: the share of each sense of a word over the values of a field of documents, such as their year.

Numbers and dates are joined into groups of equal width, texts are groups of their own. A share has the interval of
`intervals.score_share`, with one design effect for all of them, since uses of one document are not independent.
"""

import csv
import io
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from .intervals import find_design_effect, score_share
from .plots import Curve, Look, add_legend, draw_curves, draw_points, new_figure, save_figure, set_title, wrap
from .token_store import Use, Value

# "1848", "1848-05", "1848-05-01" and so on: of dates, the year counts.
DATE = re.compile(r"([+-]?\d{1,4})(-\d\d?(-\d\d?([T ].*)?)?)?")
MAX_GROUPS = 10  # of numbers, if no width is given
MAX_DRAWN = 20  # groups of texts in a picture
GROUP_DODGE = 0.6  # of the distance between groups, over which their senses are spread at most
DODGE_POINTS = 9  # between two senses at most


@dataclass(frozen=True)
class Group:
    """Documents with similar values of a field.

    label (str): For people: a text, a number, or the first and the last number.
    place (float): On an axis: the middle of the numbers, or the number of the group.
    low (Optional[float]), high (Optional[float]): First and last number (of whole numbers), or the end of the interval;
        None for texts.
    values (List[Value]): The values of the field that it joins.
    """

    label: str
    place: float
    low: Optional[float]
    high: Optional[float]
    values: List[Value]


@dataclass(frozen=True)
class Shares:
    """How often each sense occurs in each group.

    field (str): Name of the field.
    groups (List[Group]): In order.
    rows (List[Dict[str, Any]]): A row for each group and sense, see `count_shares`.
    effect (float): Design effect of documents.
    n_without (int): Uses whose documents do not have the field.
    """

    field: str
    groups: List[Group]
    rows: List[Dict[str, Any]]
    effect: float
    n_without: int

    @property
    def n_senses(self) -> int:
        """RETURNS (int): Senses of a group."""
        return len(self.rows) // len(self.groups)


def make_groups(values: Sequence[Value], field: str, bin_width: Optional[float] = None) -> List[Group]:
    """Join the values of a field.

    values (Sequence[Value]): All that occur.
    bin_width (Optional[float]): Width of a group of numbers; None: each number is a group if there are at most
        `MAX_GROUPS`, otherwise the least of 1, 2, 5, 10, 20, ... that makes no more groups.
    RETURNS (List[Group]): In order: numbers and dates by size, texts by the alphabet.
    RAISES (ValueError): For a width where the values are not numbers.
    """
    distinct = list(dict.fromkeys(values))
    numbers = {value: number for value in distinct if (number := _to_number(value)) is not None}
    if len(numbers) < len(distinct):
        if bin_width is not None:
            other = next(value for value in distinct if value not in numbers)
            raise ValueError(
                f"`bin_width` does not fit the field '{field}', whose values are not all numbers or dates: one is "
                f"'{other}'. Leave it out, or correct the field; null stands for an unknown number."
            )
        by_label: Dict[str, List[Value]] = {}
        for value in sorted(distinct, key=lambda value: _sort_key(value, numbers.get(value))):
            by_label.setdefault(f"{value:.15g}" if isinstance(value, float) else str(value), []).append(value)
        return [Group(label, i, None, None, joined) for i, (label, joined) in enumerate(by_label.items())]
    is_whole = all(float(number).is_integer() for number in numbers.values())
    if bin_width is None and len(set(numbers.values())) > MAX_GROUPS:
        bin_width = _choose_width(sorted(set(numbers.values())), is_whole)
    joined: Dict[float, List[Value]] = {}
    for value, number in numbers.items():
        low = number if bin_width is None else round(math.floor(round(number / bin_width, 9)) * bin_width, 9)
        joined.setdefault(low, []).append(value)
    whole = is_whole and (bin_width is None or float(bin_width).is_integer())
    return [_make_group(low, bin_width or 0.0, joined[low], whole) for low in sorted(joined)]


def _sort_key(value: Value, as_number: Optional[float]) -> Tuple[float, str, str]:
    """Numbers and dates by size, then texts by the alphabet."""
    return (math.inf if as_number is None else as_number), str(value).casefold(), str(value)


def _to_number(value: Value) -> Optional[float]:
    if not isinstance(value, str):
        return value
    match = DATE.fullmatch(value)
    return int(match[1]) if match else None


def _choose_width(numbers: Sequence[float], is_whole: bool) -> float:
    exponent = math.floor(math.log10((numbers[-1] - numbers[0]) / MAX_GROUPS))
    widths = [step * 10.0**power for power in range(exponent, exponent + 3) for step in (1, 2, 5)]
    for width in (width for width in widths if width >= 1 or not is_whole):
        if len({math.floor(round(number / width, 9)) for number in numbers}) <= MAX_GROUPS:
            break
    return width


def _make_group(low: float, width: float, values: List[Value], is_whole: bool) -> Group:
    high = low + width - (1 if is_whole and width else 0)
    if is_whole:
        low, high = int(low), int(high)
    first, last = (f"{bound}" if is_whole else f"{bound:g}" for bound in (low, high))
    dash = "–" if low >= 0 else " to "
    return Group(first if first == last else f"{first}{dash}{last}", (low + high) / 2, low, high, values)


def count_shares(
    uses: Sequence[Use],
    labels: Sequence[int],
    values: Sequence[Optional[Value]],
    field: str,
    bin_width: Optional[float] = None,
) -> Shares:
    """Count the senses of the uses of a word in each group of documents.

    uses (Sequence[Use]): N uses, from `NeighborIndex.uses`.
    labels (Sequence[int]): Shape (N,), the sense of each, from 0, as in `SenseMap`.
    values (Sequence[Optional[Value]]): Shape (N,), from `NeighborIndex.values_of`.
    bin_width (Optional[float]): See `make_groups`.
    RETURNS (Shares): Each row has the label of the group ("value"), its first and last number ("from", "to"; None for
        texts), its numbers of documents and of uses, the sense (from 1), its number of uses ("n"), and their share with
        the bounds of its 95 % interval ("share", "low", "high").
    RAISES (ValueError): If no use has a value; see `make_groups`.
    """
    known = [i for i, value in enumerate(values) if value is not None]
    if not known:
        raise ValueError(
            f"No use of '{uses[0].word if uses else ''}' is in a document with the field '{field}'. Choose another "
            "field."
        )
    groups = make_groups([value for value in values if value is not None], field, bin_width)
    group_of = {value: i for i, group in enumerate(groups) for value in group.values}
    group_of_use = np.asarray([group_of[values[i]] for i in known])  # type: ignore[index]  # values that are None are left out
    documents, senses = np.asarray([uses[i].document for i in known], dtype=object), np.asarray(labels)[known]
    effect = find_design_effect(senses, documents.astype(str), group_of_use)
    rows = []
    for i, group in enumerate(groups):
        is_in_group = group_of_use == i
        place = {"value": group.label, "from": group.low, "to": group.high}
        counts = {"documents": len(set(documents[is_in_group])), "uses": int(is_in_group.sum())}
        for sense in range(int(np.max(labels)) + 1):
            n = int((senses[is_in_group] == sense).sum())
            score = score_share(n, counts["uses"], effect=effect)
            record = {"group": sense + 1, "n": n, "share": score.value, "low": score.low, "high": score.high}
            rows.append({**place, **counts, **record})
    return Shares(field, groups, rows, effect, len(values) - len(known))


def write_table(shares: Shares) -> str:
    """RETURNS (str): The rows as CSV, numbers with a decimal point."""
    file = io.StringIO()
    writer = csv.DictWriter(file, list(shares.rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(shares.rows)
    return file.getvalue()


def draw_shares(
    shares: Shares, path: Path, *, title: str, captions: Sequence[str] = (), look: Optional[Look] = None
) -> None:
    """Draw the share of each sense with its interval: lines over numbers, points over texts.

    shares (Shares): What to draw; if there are more than `MAX_DRAWN` texts, those with the most uses.
    captions (Sequence[str]): A text for each sense, beside its number.
    """
    n_senses, groups = shares.n_senses, shares.groups
    is_text = groups[0].low is None
    sizes = [row["uses"] for row in shares.rows[::n_senses]]
    drawn = sorted(sorted(range(len(groups)), key=lambda i: -sizes[i])[:MAX_DRAWN]) if is_text else range(len(groups))
    places = [float(i) for i in range(len(drawn))] if is_text else [groups[i].place for i in drawn]
    gaps = [b - a for a, b in zip(places, places[1:])]
    figure, (axes,) = new_figure(height=3.6 + 0.25 * n_senses, look=look)
    gap = min(gaps, default=1.0)
    edge = max(gap / 2, 0.05 * (places[-1] - places[0]))
    low, high = places[0] - edge, places[-1] + edge
    # 60 points of 72
    step = min(GROUP_DODGE * gap / n_senses, DODGE_POINTS * (high - low) / (60 * figure.get_figwidth()))
    for sense in range(n_senses):
        rows = [shares.rows[i * n_senses + sense] for i in drawn]
        at = [place + (sense - (n_senses - 1) / 2) * step for place in places]
        label = f"group {sense + 1}" + (f": {captions[sense]}" if captions else "")
        values, lows, highs = ([100 * row[key] for row in rows] for key in ("share", "low", "high"))
        if not is_text:
            draw_curves(axes, [Curve("", at, values, style=sense)])
        draw_points(axes, [Curve(wrap(figure, label, 110), at, values, lows, highs, sense)])
    if len(places) <= MAX_GROUPS or is_text:
        names = _shorten_names([groups[i].label for i in drawn])
        is_long = sum(map(len, names)) > 70 * figure.get_figwidth() / 7
        labels = [wrap(figure, f"{name} ({sizes[i]:,})", 1000) for name, i in zip(names, drawn)]
        axes.set_xticks(places, labels, rotation=30 if is_long else 0, ha="right" if is_long else "center", fontsize=9)
    top = min(103.0, 105 * max(row["high"] for row in shares.rows))
    axes.set(ylabel="share of the uses (%)", xlim=(low, high), ylim=(-0.03 * top, top))
    note = f": the {len(drawn)} of {len(groups)} with most uses" if len(drawn) < len(groups) else ""
    axes.set_xlabel(f"{shares.field} (uses){note}".replace("$", r"\$"))
    set_title(figure, title)
    add_legend(figure, axes, n_columns=1 if captions else n_senses, loc="outside lower left", fontsize=8)
    save_figure(figure, path, look=look)


def _shorten_names(names: Sequence[str]) -> List[str]:
    """RETURNS (List[str]): Paths without the folder that they share, and at most 30 characters."""
    if len(names) > 1 and all("/" in name for name in names):
        names = [os.path.relpath(name, os.path.commonpath([os.path.dirname(path) for path in names])) for name in names]
    return [name if len(name) <= 30 else f"…{name[-29:]}" for name in names]
