"""A real browser, without a window and without a network, for the tests that open pages.

`TESSMC_BROWSER` names the program, or where it is; without it, `chromium` is looked for. Where there is none, these
tests are skipped and say so, unless `TESSMC_BROWSER` is set, as in CI: then they fail.
"""

import os
import shutil

import pytest

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def find_browser() -> str:
    """The browser's path; without one the test is skipped, or fails if a browser was named."""
    name = os.environ.get("TESSMC_BROWSER", "chromium")
    path = shutil.which(name)
    if path is None and "TESSMC_BROWSER" in os.environ:
        pytest.fail(f"TESSMC_BROWSER is {name!r}, which cannot be run; set it to the path of a Chromium")
    if path is None:
        pytest.skip("there is no `chromium` to open pages in: install it, or set TESSMC_BROWSER to the path of one")
    return path


@pytest.fixture(scope="session")
def browser():
    """One Chromium for all tests of a process."""
    path = find_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    """A fresh, empty page; a test that leaves errors in its console fails, and so does one that asks a server."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    errors, requests = [], []
    page.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    yield page
    context.close()
    assert not errors, f"the page complained: {errors}"
    asked = [url for url in requests if not url.startswith(("file:", "data:", "blob:", "about:"))]
    assert not asked, f"the page asked the network for {asked}"
