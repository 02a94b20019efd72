"""Parts of HTML pages: escaped text, tables, the frame with its style.

A page needs no other file, and runs no script but its own.
"""

import re
from html import escape
from typing import Sequence

# Control characters, also those that change the direction of a text, and halves of surrogate pairs.
UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 60rem; margin: 0 auto;
  padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.5rem 0; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 0.6rem; padding-top: 0.8rem; border-top: 1px solid #ccc; }
h3 { font-size: 1.05rem; margin: 1.4rem 0 0.4rem; }
p, ul { margin: 0.5rem 0; }
.small, figcaption { font-size: 0.85rem; color: #555; }
.finding { font-size: 1.1rem; }
.notes { background: #fff7e0; border-left: 4px solid #E69F00; padding: 0.5rem 1rem; }
.notes ul { margin: 0.3rem 0; padding-left: 1.2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.95rem; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: 0.25rem 0.7rem 0.25rem 0; text-align: right; vertical-align: top; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 1px solid #888; font-weight: 600; }
tbody tr + tr td { border-top: 1px solid #eee; }
table.facts td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
table.facts td:first-child { min-width: 7rem; color: #555; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 1rem 1.5rem; }
figure { margin: 0; break-inside: avoid; }
figure svg { width: 100%; height: auto; display: block; }
figcaption { margin-bottom: 0.3rem; color: #222; }
.key { font-size: 0.85rem; display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; margin: 0.3rem 0; }
.key svg { vertical-align: -1px; }
ol.places { list-style: none; padding: 0; margin: 0.4rem 0; }
ol.places li { border-left: 3px solid #ccc; padding: 0.1rem 0 0.1rem 0.8rem; margin: 0.9rem 0; break-inside: avoid; }
ol.fixed li { border-color: #009E73; }
ol.introduced li { border-color: #D55E00; }
.context { unicode-bidi: isolate; }
mark { background: #fdf1c4; padding: 0 0.15em; border-radius: 0.2em; }
dl { display: grid; grid-template-columns: auto 1fr; gap: 0 0.8rem; margin: 0.2rem 0 0; font-size: 0.9rem; }
dt { color: #555; }
dd { margin: 0; unicode-bidi: isolate; }
.wrong { text-decoration: underline wavy #D55E00 1px; text-underline-offset: 3px; }
.label { font-size: 0.8em; font-weight: 600; color: #444; }
summary { cursor: pointer; margin-top: 0.8rem; }
pre { font-size: 0.8rem; line-height: 1.4; white-space: pre-wrap; background: #f6f6f6; padding: 0.8rem; }
@media (max-width: 32rem) { table { font-size: 0.85rem; } th { white-space: normal; }
  th, td { padding-right: 0.4rem; } td:first-child { white-space: normal; } }
@media print { body { max-width: none; padding: 0; font-size: 11pt; } details:not([open]) { display: none; }
  h2, h3, .key { break-after: avoid; } }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
SCRIPT_POLICY = f"{POLICY}; script-src 'unsafe-inline'"
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def to_html(text: object) -> str:
    """text (object): Anything that has a text.
    RETURNS (str): Escaped; characters that a page should not have become U+FFFD.
    """
    return escape(UNSAFE.sub("\ufffd", str(text)))


def make_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, kind: str = "") -> str:
    """header (Sequence[str]): Titles of the columns, HTML; empty for none.
    rows (Sequence[Sequence[str]]): Cells, HTML.
    kind (str): A class of the style: "facts" for names and texts.
    RETURNS (str): A table that scrolls where it is too wide.
    """
    head = f"<thead><tr>{''.join(f'<th>{cell}</th>' for cell in header)}</tr></thead>" if header else ""
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table class="{kind}">{head}<tbody>{body}</tbody></table></div>'


def make_section(title: str, *parts: str) -> str:
    """title (str): Plain text.
    parts (str): HTML.
    RETURNS (str): A section, empty without parts.
    """
    content = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{to_html(title)}</h2>\n{content}\n</section>" if content else ""


def make_page(title: str, parts: Sequence[str], *, style: str = STYLE, script: str = "") -> str:
    """title (str): Plain text.
    parts (Sequence[str]): HTML.
    style (str): CSS.
    script (str): JavaScript that runs at the end; without it the page may run none.
    RETURNS (str): The page. Its Content-Security-Policy lets it fetch nothing.
    """
    policy = SCRIPT_POLICY if script else POLICY
    end = f"<script>{script}</script>" if script else ""
    body = "\n".join(part for part in (*parts, end) if part)
    return PAGE.format(policy=policy, title=to_html(title), style=style, body=body)
