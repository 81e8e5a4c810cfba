"""The browser of the tests opens files, and notices what a page does wrong."""

import pytest

from browser import find_browser


def test_a_file_is_opened(page, tmp_path):
    (tmp_path / "page.html").write_text("<title>a page</title>")
    page.goto((tmp_path / "page.html").as_uri())
    assert page.title() == "a page"


def test_without_a_browser_tests_are_skipped_and_say_so(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("TESSMC_BROWSER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="install it"):
        find_browser()


def test_a_browser_that_was_named_has_to_be_there(monkeypatch):
    monkeypatch.setenv("TESSMC_BROWSER", "no-such-browser")
    with pytest.raises(pytest.fail.Exception, match="cannot be run"):
        find_browser()
