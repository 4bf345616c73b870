"""A real browser: Debian's Chromium, offline. These tests are skipped by name where it, or Playwright, is missing."""

import shutil

import pytest


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (make browser)")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as running:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]
        launched = running.chromium.launch(executable_path=program, args=flags)
        yield launched
        launched.close()


class Opened:
    """A page in the browser, with everything that it should not have done."""

    def __init__(self, page):
        self.page, self.complaints, self.requests = page, [], []
        page.on(
            "console", lambda message: message.type in ("error", "warning") and self.complaints.append(message.text)
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def hear(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def check(self):
        assert self.complaints == []
        assert [url for url in self.requests if not url.startswith(("file:", "blob:"))] == []


@pytest.fixture
def opened(browser):
    """Opens a file at a width; afterwards it must not have complained or asked for anything."""
    seen = []

    def open_page(path, width=1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **options)
        one = Opened(context.new_page())
        one.page.goto(path.resolve().as_uri())
        seen.append((context, one))
        return one.page

    yield open_page
    for context, one in seen:
        one.check()
        context.close()
