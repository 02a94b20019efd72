"""Pages in a real browser, headless: views of the explorer, hostile text, state in the address, keyboard, and a phone;
pages that commands write.
"""

import itertools
import re
from contextlib import closing

import numpy
import pytest
from explorer.browsing import opened
from explorer.serving import running
from explorer.stub_index import HOSTILE
from report_outputs import write_docs, write_logs, write_output

from spacy_elmo import load_bilm
from spacy_elmo.analysis.pages import render_surprisal
from spacy_elmo.analysis.report import make_report
from spacy_elmo.analysis.report_page import render_report
from spacy_elmo.analysis.sense_map import SenseMap, render_senses
from spacy_elmo.analysis.token_store import Use
from spacy_elmo.explorer import views
from spacy_elmo.explorer.views import Explorer
from spacy_elmo.pipeline.surprisal import Surprisal

pytestmark = pytest.mark.slow
VIEWS = ("compare", "neighbors", "senses", "surprisal", "tokens")


@pytest.fixture
def page(browser, packaged):
    with opened(browser, packaged) as found:
        yield found


@pytest.mark.issue(48)
def test_compare_draws_a_map_per_layer_and_of_a_mix_that_sliders_change(page):
    page.page.set_viewport_size({"width": 1280, "height": 800})
    for first in ("He sat on the bank .", "He sat on the bank of the river . " * 4):  # maps stand in a row
        page.open("compare", a=first, b="The bank lent him money .")
        boxes = [figure.bounding_box() for figure in page.page.locator("#compare figure").all()]
        assert len(boxes) == 4 and len({box["y"] for box in boxes}) == 1 and boxes[0]["y"] < 560
        assert boxes[-1]["x"] + boxes[-1]["width"] < 1280
    page.open("compare", a="the bank", b="a bank", s0=100, s1=0, s2=0)
    first, last, mix = (page.page.locator(f'#compare figure[data-map="{key}"] tbody') for key in ("0", "2", "mix"))
    assert first.inner_text() == mix.inner_text() and first.locator("td.cell").nth(3).inner_text() == "1.00"
    assert 0 < float(last.locator("td.cell").nth(3).inner_text()) < 0.95
    page.page.fill("[name=s2]", "100")
    assert first.inner_text() != mix.inner_text() and page.text("#s0-value") == "50 %"
    assert page.page.is_disabled("#compare [name=gamma]")  # a cosine has no length
    page.page.select_option("#compare [name=measure]", "dot")
    before = float(mix.locator("td.cell").first.inner_text())
    page.page.fill("[name=gamma]", "2")
    assert float(mix.locator("td.cell").first.inner_text()) == pytest.approx(4 * before, rel=0.05)
    page.page.select_option("#compare [name=mix]", "0")  # that of the pipeline
    assert [page.text(f"#{name}-value") for name in ("s0", "s1", "s2", "gamma")] == ["10 %", "70 %", "20 %", "2.50"]
    assert "mix=0" in page.page.evaluate("location.hash")


@pytest.mark.issue(59)
@pytest.mark.parametrize("text, token", [("the bank of the river", 1), ("two boats", 0)])
def test_neighbors_show_a_word_at_once(page, text, token):
    """The word of the sample, or the first one; the first view was empty until a word was chosen."""
    page.open("neighbors", text=text, k=3)
    page.page.wait_for_selector("#neighbors ol.neighbors")
    pressed = page.page.locator("#neighbors .word[aria-pressed=true]").all_text_contents()
    assert pressed == [text.split()[token]] and page.page.locator("#neighbors ol.neighbors li").count() == 3


@pytest.mark.issue(40)
def test_surprisal_shows_numbers_and_substitutes_of_a_clicked_word(page):
    page.open("surprisal", text="He sat on the bank of the river.")
    shown = "element => getComputedStyle(element, '::after').content"
    numbers = page.page.locator("#surprisal .word").evaluate_all(f"elements => elements.map({shown})")
    assert len(numbers) == 9 and all(re.fullmatch(r'"\d+\.\d"', number) for number in numbers)
    assert "outside the vocabulary, predicted as <UNK>" in page.text("#surprisal .legend")
    page.page.select_option("#surprisal [name=direction]", "backward")
    assert "Choose a word" in page.text("#surprisal .result")
    page.page.click("#surprisal .word >> text=bank")
    page.page.wait_for_selector("#surprisal table.list")
    assert "edge" in page.text("#surprisal table.list") and "In place of bank" in page.text("#surprisal h3")
    assert "token=4" in page.page.evaluate("location.hash") and "Choose a word" not in page.text("#surprisal .result")


def test_neighbors_and_senses_are_uses_of_the_index(page, monkeypatch):
    page.open("neighbors", text="the bank", k=3)
    page.page.click("#neighbors .word >> text=bank")
    page.page.wait_for_selector("#neighbors ol.neighbors")
    rows = page.page.locator("#neighbors ol.neighbors li")
    assert rows.count() == 3 and "the muddy bank of the river" in rows.first.text_content()
    page.open("senses", word="bank", n=2)
    assert page.text("#senses .facts").startswith("28 uses in 2 groups")
    assert page.page.locator("#senses svg.map .point").count() == 28
    command = "python -m spacy elmo senses INDEX bank --n-senses 2 --picture map.svg"
    assert command in page.text("#senses .result .hint code >> nth=0")
    assert page.page.locator("#senses .groups li").count() == page.page.locator("#senses .exemplar").count() == 2
    page.page.locator("#senses .exemplar").first.hover()
    assert "Group" in page.text("#senses .readout") and "bank" in page.text("#senses .readout mark")
    monkeypatch.setattr(views, "MAX_USES", 10)
    page.open("senses", word="bank", n=3)
    assert page.text("#senses .facts").startswith("10 of 28 uses in 3 groups")


ODD = ["\u05d0\u05d1\u05d2 \u05d3", "\U0001f30a\U0001f468\u200d\U0001f469", "a\u0000b \u202ec", "x" * 10_000]


def test_any_text_stays_text_and_a_phone_needs_no_horizontal_scroll(browser, packaged):
    hostile = HOSTILE.replace("\x00", "\u2400")
    plain = "He sat on the muddy bank of the river and counted the boats that went by ."
    with opened(browser, packaged, width=375) as page:
        for view, text in itertools.product(VIEWS, (hostile, plain)):
            word = "bank" if text == plain else text
            page.open(view, text=text, a=text, b=text, word=word, token=5 * (text == plain), k=5, uses="any")
            assert page.page.locator("main script, main img, main b").count() == 0
            assert text == plain or view == "senses" or "script" in page.text(f"#{view}")  # no use of such a word
            assert page.page.evaluate("document.title") == "ELMo explorer"
            assert text == hostile or page.page.evaluate("document.documentElement.scrollWidth") <= 375
        for text, view in itertools.product(ODD, ("tokens", "surprisal")):
            page.page.click(f"#tab-{view}")
            page.page.fill(f"#{view} textarea", text)
            page.page.click(f"#{view} button[type=submit]")
            page.wait(view)
            assert page.text(f"#{view} .error") == ""
            assert page.page.evaluate("document.documentElement.scrollWidth") <= 375


@pytest.mark.issue(40)
@pytest.mark.parametrize("view, width", [("senses", 390), ("neighbors", 1280)])
def test_without_an_index_one_click_builds_one(browser, view, width):
    """Whoever opens every tab meets no error; after the click both views answer with the words that they offer."""
    explorer = Explorer(load_bilm("en_elmo_sm"), "en_elmo_sm")
    with closing(explorer), running(explorer) as address, opened(browser, address, width=width) as page:
        page.open("compare")
        for name in (*VIEWS, view):
            page.page.click(f"#tab-{name}")
            page.wait(name)
            assert page.page.locator(".error:not(:empty)").count() == 0, name
            assert page.page.evaluate("document.documentElement.scrollWidth") == width, name
        page.page.click(f"#{view} .corpus > button")
        page.page.wait_for_function("() => document.querySelector('#model').textContent.includes('index of 1,')")
        page.page.click("#tab-senses")
        page.page.wait_for_selector("#senses svg.map")
        assert page.text("#senses .groups mark >> nth=0") == page.page.input_value("#senses [name=word]")
        page.page.click("#tab-neighbors")
        page.page.click("#neighbors .word >> text=bank")
        page.page.wait_for_selector("#neighbors ol.neighbors")
        assert "river" in page.text("#neighbors ol.neighbors li >> nth=0")
        assert page.page.locator(".error:not(:empty)").count() == 0


ADDRESSES = {
    "compare": {"a": "a & b", "b": "<b>#?=", "layer": "mix", "measure": "dot", "s0": 33.37, "gamma": 13.125},
    "neighbors": {"text": "the bank", "uses": "same", "k": 4, "token": 1},
    "senses": {"word": "bank", "n": 3},
    "surprisal": {"text": "the\nbank + more", "direction": "backward", "token": 2},
    "tokens": {"text": "One. Two."},
}


def test_address_reproduces_the_view_and_back_returns_to_it(browser, packaged):
    with opened(browser, packaged) as one, opened(browser, packaged) as two:
        for view, fields in ADDRESSES.items():
            one.open(view, **fields)
            two.page.goto(one.page.evaluate("location.href"))
            two.wait(view)
            for user in (one, two):
                user.page.wait_for_load_state("networkidle")
            assert one.page.inner_html(f"#{view}") == two.page.inner_html(f"#{view}")
            for name, value in fields.items():
                if name != "token":
                    assert two.page.input_value(f"#{view} [name={name}]") == str(value)
            assert two.page.locator(f"#{view} .word[aria-pressed=true]").count() == ("token" in fields)
        two.page.go_back()
        two.wait("surprisal")
        assert two.page.input_value("#surprisal textarea") == ADDRESSES["surprisal"]["text"]


def test_odd_addresses_are_ignored_and_numbers_kept_in_range(page):
    for address in ("view=<script>", "view=compare&layer=99&s0=x&gamma=-1e999&mix=7", "%%%&&=="):
        page.page.goto("about:blank")
        page.page.goto(f"{page.address}#{address}")
        page.wait("compare")
        assert page.page.locator("#compare figure").count() == 4
    page.open("surprisal", text="the bank", token=99)
    assert page.text("#surprisal .error") == "" and page.page.locator("#surprisal .word").count() == 2
    for given, taken in (("999999", "50"), ("-3", "1")):
        page.open("neighbors", text="the bank", token=1, k=given)
        assert page.page.input_value("#neighbors [name=k]") == taken and page.text("#neighbors .error") == ""


def test_keyboard_reaches_everything(page):
    page.open("compare", a="the bank", b="a bank").press("Tab")
    assert page.focused() == "Compare"
    page.press("ArrowRight", "ArrowRight", "ArrowRight").wait("surprisal")
    assert page.focused() == "Surprisal"
    assert page.page.evaluate("document.activeElement.matches(':focus-visible')")
    page.press("Tab").press("Control+a")
    page.page.keyboard.type("He sat on the bank.")
    page.press("Control+Enter")
    page.page.wait_for_function("() => document.querySelectorAll('#surprisal .word').length === 6")
    page.press("Tab", "Tab", "Tab")
    assert page.focused() == "He"
    page.press("ArrowRight", "End", "ArrowLeft")
    assert page.focused() == "bank"
    page.press("Enter")
    page.page.wait_for_selector("#surprisal table.list")
    assert "In place of bank" in page.text("#surprisal h3")
    page.open("compare", a="the bank", b="a bank", layer="mix")
    page.page.focus("#compare td.cell[tabindex='0']")
    page.press("ArrowRight", "ArrowDown")
    assert page.text("#compare .readout").startswith("bank × bank: cosine 0.")
    page.open("senses", word="bank", n=2)
    page.page.focus("#senses .point[tabindex='0']")
    first = page.text("#senses .readout")
    page.press("End")
    assert page.text("#senses .readout") != first


def test_every_control_has_a_name(page):
    page.open("compare")
    unnamed = page.page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, textarea")]
        .filter((item) => !(item.labels?.length || item.textContent.trim() || item.ariaLabel)).length"""
    )
    assert unnamed == 0
    assert page.page.locator("[role=tab][aria-selected=true]").count() == 1
    html = page.page.content()
    assert all(re.search(f'id="{name}"', html) for name in re.findall(r'aria-controls="(\w+)"', html))


# Of every text that is shown: its contrast with what is behind it, from 1 to 21 (WCAG 2.1, sec. 1.4.3).
CONTRASTS = """() => {
    const read = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
        .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (element) => {
        if (!element) return [255, 255, 255];
        const [r, g, b, a = 1] = read(getComputedStyle(element).backgroundColor);
        return a === 1 ? [r, g, b] : behind(element.parentElement).map((c, i) => a * [r, g, b][i] + (1 - a) * c);
    };
    const texts = [...document.querySelectorAll("body, body *")].filter((element) =>
        element.checkVisibility() && !element.parentElement.querySelector(":scope > rect") &&
        [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
    return texts.map((element) => {
        const style = getComputedStyle(element);
        const ink = light(read(element instanceof SVGElement ? style.fill : style.color));
        const paper = light(behind(element));
        const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
        return [ratio, element.textContent.trim().slice(0, 40)];
    });
}"""


def write_pages(folder):
    """The page of a training, of the senses of a word, and of a text's surprisal."""
    ours = write_output(folder / "elmo-0", {"Acme": "ORG", "today": "LOC"}, metrics={"ents_f": 0.5})
    write_logs(ours)
    docs = write_docs(folder / "test.spacy", [["Acme", "hires", "Ada", "today"]], [[(0, 1, "ORG"), (2, 3, "PER")]])
    report = make_report(ours, data=docs)
    shades = [bits / 10 for bits in range(200)]
    tokens = [(f"{bits}", " ", Surprisal(bits, bits, bits, bits == 2)) for bits in shades]
    uses = [Use("bank", [f"left{i}", "bank"], 1, "doc") for i in range(12)]
    points = numpy.linspace(0.0, 1.0, 24).reshape(12, 2)
    senses = SenseMap(numpy.repeat([0, 1], 6), [0, 6], points, [6, 6], 0.5)
    pages = {
        "report": render_report(report),
        "surprisal": render_surprisal(tokens),
        "senses": render_senses(uses, senses),
    }
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, encoding="utf8")


@pytest.mark.issue(40)
@pytest.mark.issue(48)
def test_written_pages_can_be_read_in_light_and_dark_on_a_phone_and_a_desktop(browser, tmp_path):
    write_pages(tmp_path)
    for scheme, width in itertools.product(("light", "dark"), (390, 1280)):
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        page = context.new_page()
        for name in ("report", "surprisal", "senses"):
            page.goto((tmp_path / f"{name}.html").as_uri())
            page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
            contrasts = page.evaluate(CONTRASTS)
            assert len(contrasts) > 10 and min(contrasts)[0] >= 4.5, (scheme, name, min(contrasts))
            assert page.evaluate("document.documentElement.scrollWidth") == width, (name, width)
            paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (paper == "rgb(255, 255, 255)") == (scheme == "light"), (scheme, name, paper)
        if width == 1280:  # the sentence of a use stands beside the map, and both are in the window
            page.hover("[data-use='3']")
            view, told = page.locator("svg[role=group]").bounding_box(), page.locator("#shown").bounding_box()
            assert "left3" in page.inner_text("#shown") and view["width"] > 640 and view["y"] < 300
            assert told["x"] > view["x"] + view["width"] and told["x"] + told["width"] > 0.95 * width
            assert told["y"] + told["height"] < 900
            page.goto((tmp_path / "report.html").as_uri())  # its figures do not grow with the window
            widths = {round(figure.bounding_box()["width"]) for figure in page.locator("figure").all()}
            assert len(widths) == 1 and widths.pop() < 500
        context.close()


@pytest.mark.issue(48)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_of_the_explorer_leave_its_texts_readable(browser, packaged, scheme):
    with opened(browser, packaged) as page:
        page.page.emulate_media(color_scheme=scheme)
        # Equal and nearly equal tokens, and opposite ones where only the last layer counts.
        page.open("compare", a="the the bank . , !", b="the bank . , !", s0=0, s1=0, s2=100, measure="dot")
        assert min(page.page.evaluate(CONTRASTS))[0] >= 4.5
        page.page.evaluate("""async () => {
            const { shade } = await import("/dom.js");
            for (let i = -100; i <= 100; i += 1) {
                const place = document.createElement("span");
                place.textContent = `shade ${i}`;
                shade(place, i / 100);
                document.body.append(place);
            }
        }""")
        contrasts = page.page.evaluate(CONTRASTS)
        assert len(contrasts) > 200 and min(contrasts)[0] >= 4.5, min(contrasts)
