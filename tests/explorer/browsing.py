"""Pages of the explorer in a browser: what a user does and sees. Problems of a page are collected."""

from contextlib import contextmanager
from urllib.parse import urlencode

MS = 60_000
# Whether a view has answered: with a result, or with an error.
DONE = """name => {
    const view = document.getElementById(name);
    const has = (part) => view.querySelector(part)?.textContent.trim();
    const isIdle = !view.hidden && !view.hasAttribute("aria-busy");
    return isIdle && (has(".result") || has(".error") || has(".text"));
}"""


class Page:
    """A page of the explorer.

    page (playwright.sync_api.Page): It.
    address (str): Of the explorer.
    """

    def __init__(self, page, address):
        self.page = page
        self.address = address
        self.problems = []
        page.set_default_timeout(MS)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", lambda dialog: (self.problems.append("dialog"), dialog.dismiss()))
        page.on("console", self._listen)
        page.on("request", self._watch)

    def open(self, view, **fields):
        """Open a view by its address, and wait for its answer."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.address}#{urlencode({'view': view, **fields})}")
        return self.wait(view)

    def wait(self, view):
        self.page.wait_for_function(DONE, arg=view)
        return self

    def text(self, selector):
        """RETURNS (str): What a reader sees."""
        return str(self.page.inner_text(selector))

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)
        return self

    def focused(self):
        """RETURNS (str): The text of the focused element."""
        return str(self.page.evaluate("document.activeElement.textContent"))

    def _listen(self, message):
        is_answer = "status of 400" in message.text  # an error message for the user
        if message.type in ("error", "warning") and not is_answer:
            self.problems.append(message.text)

    def _watch(self, request):
        if not request.url.startswith((self.address, "about:")):
            self.problems.append(f"a request to {request.url}")


@contextmanager
def opened(browser, address, width=1100):
    """YIELDS (Page): A page of a new user, who must have met no problem at the end."""
    context = browser.new_context(viewport={"width": width, "height": 740})
    page = Page(context.new_page(), address)
    try:
        yield page
        assert page.problems == []
    finally:
        context.close()
