"""What a page of HTML has and lacks; a failing check names only what differs, not the page."""

from html.parser import HTMLParser
from typing import Any, List, Optional, Sequence, Set, Tuple


class Elements(HTMLParser):
    """The elements, attributes, text and rows of tables of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: List[str] = []
        self.attributes: List[Tuple[str, Optional[str]]] = []
        self.places: Set[Tuple[str, str, str]] = set()  # tag, name and value
        self.text = ""
        self.rows: List[List[str]] = []  # texts of the cells
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.places |= {(tag, name, value or "") for name, value in attrs}
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self.rows.append([])  # text after a table belongs to no cell


def check_texts(content: str, *texts: str, without: Sequence[str] = ()) -> None:
    """texts (str): What the content has to contain.
    without (Sequence[str]): What it must not contain.
    """
    __tracebackhide__ = True
    missing = [text for text in texts if text not in content]
    present = [_around(content, text) for text in without if text in content]
    assert not missing and not present, f"missing: {missing}; should not be there: {present}"


def check_rows(page: str, *expected: Sequence[str]) -> None:
    """expected (Sequence[str]): Rows that tables of the page have to contain, as texts of their cells. Of a row that is
    missing, the rows with the same first cell are named.
    """
    __tracebackhide__ = True
    rows = Elements(page).rows
    missing = [list(row) for row in expected if list(row) not in rows]
    similar = [row for row in rows if row and row[0] in {row[0] for row in missing}]
    first = [row[0] for row in rows if row]
    assert not missing, f"missing: {missing}; rows that begin so: {similar or f'none, but {first}'}"


def _around(content: str, text: str) -> str:
    place = content.index(text)
    return content[max(0, place - 40) : place + len(text) + 40]
