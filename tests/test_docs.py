"""The documentation: it builds strictly, has every public name, and its pages open in a browser without complaint."""

import importlib
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tessmc
from test_readme import run_examples

ROOT = Path(__file__).parents[1]
EXPLORE = (ROOT / "docs" / "explore" / "index.html").as_uri()
PARTS = ["kernels", "transports", "targets", "adaptation", "diagnostics", "models", "report", "engines", "experiments"]
PAGES = ["index.html", "method/index.html", "when-not/index.html", "api/tessmc/index.html", "results/index.html"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built with warnings as errors."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def anchors(site: Path, page: str) -> set[str]:
    return set(re.findall(r'id="([^"]+)"', (site / page).read_text()))


@pytest.mark.parametrize("part", PARTS)
def test_every_public_name_of_a_part_is_documented(site, part):
    names = importlib.import_module(f"tessmc.{part}").__all__
    shown = anchors(site, f"api/{part}/index.html")
    assert not [name for name in names if f"tessmc.{part}.{name}" not in shown]


def test_every_name_that_a_user_types_is_documented(site):
    shown = anchors(site, "api/tessmc/index.html")
    missing = [name for name in tessmc.__all__ if f"tessmc.{name}" not in shown]
    assert not [name for name in missing if not (site / "api" / name / "index.html").is_file()]


def test_other_libraries_are_documented(site):
    assert {"tessmc.blackjax.tess", "tessmc.blackjax.tess_adaptation"} <= anchors(site, "api/blackjax/index.html")
    assert "tessmc.numpyro.TESS" in anchors(site, "api/numpyro/index.html")


def test_links_inside_the_site_lead_somewhere(site):
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        for link in re.findall(r'(?:href|src)="([^":#?]+)(?:[#?][^"]*)?"', page.read_text()):
            place = (page.parent / link).resolve()
            assert place.is_file() or (place / "index.html").is_file(), f"{page.relative_to(site)} links to {link}"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_without_a_network(site, page, name):
    page.goto((site / name).as_uri())
    assert page.locator("h1").first.is_visible()
    for picture in page.locator("article img").all():
        assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0


def test_the_explorable_page_is_in_the_site(site, page):
    page.goto((site / "explore" / "index.html").as_uri())
    assert "explore/" in (site / "index.html").read_text()
    page.get_by_role("link", name="tessmc documentation").click()
    assert page.locator("h1").first.is_visible()


# Chains begin in exact draws, make three moves, and end in exact draws: so the laws of these scores are known.
SCORES = """([name, forgotten]) => {
  const random = randomNumbers(8), map = MAPS[name], count = 5000, ends = [];
  for (let chain = 0; chain < count; chain++) {
    let state = evaluate(map, map.pull(MAPS.exact.push(random.normals())), forgotten);
    for (let i = 0; i < 3; i++) state = step(random, map, state, forgotten).state;
    ends.push(state.position);
  }
  const mean = (f) => ends.reduce((sum, x) => sum + f(x), 0) / count;
  return [mean((x) => x[0]), mean((x) => x[0] ** 2), mean((x) => x[1]), mean((x) => (x[1] - 2) ** 2)];
}"""
# x₁ ~ N(0, 8) and x₂ = u₂ + 2u₁², whose fourth cumulant is 2⁴ times the 48 of χ²₁: value, variance of one draw.
EXACT = [(0, 8), (8, 2 * 8**2), (2, 9), (9, 768 + 2 * 9**2)]


def z_scores(page, name: str, forgotten: str = "") -> list[float]:
    page.goto(EXPLORE)
    found = page.evaluate(SCORES, [name, forgotten])
    return [
        abs(value - mean) / math.sqrt(variance / 5000) for value, (mean, variance) in zip(found, EXACT, strict=True)
    ]


@pytest.mark.parametrize("name", ["exact", "rough", "none"])
def test_the_page_leaves_the_banana_invariant(page, name):  # Proposition 1
    assert max(z_scores(page, name)) < 4


@pytest.mark.parametrize(("name", "forgotten"), [("rough", "log det"), ("exact", "momentum"), ("none", "momentum")])
def test_a_forgotten_term_is_noticed(page, name, forgotten):  # the twin: the test above is able to fail
    assert max(z_scores(page, name, forgotten)) > 8


def test_the_buttons_and_keys_of_the_explorable_page(page):
    page.goto(EXPLORE)
    draws, sentence = page.locator("#draws"), page.locator("#sentence")
    for line in ("Line 1.", "Lines 2 and 3.", "Lines 4 to 7.", "Lines 8 to 10. Accepted at the first try"):
        page.click("#step")
        assert sentence.text_content().startswith(line)
    page.keyboard.press("h")
    assert draws.text_content() == "101"
    assert page.locator("#mean").text_content() == "1.00"  # with the exact map every try is a draw
    page.keyboard.press("m")
    page.keyboard.press("m")
    assert page.locator("#map").input_value() == "none"
    assert draws.text_content() == "0"
    page.click("#many")
    assert float(page.locator("#mean").text_content()) > 2
    page.click("#reset")
    page.keyboard.press("p")
    assert page.locator("#play").get_attribute("aria-pressed") == "true"
    page.wait_for_function("document.getElementById('sentence').textContent.startsWith('Line')")
    page.keyboard.press("p")
    assert page.locator("#play").text_content() == "Play"


def test_the_explorable_page_fits_a_phone_and_draws_in_the_dark(page):
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(EXPLORE)
    page.click("#many")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    colours = "c => new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size"
    assert all(canvas.evaluate(colours) > 20 for canvas in page.locator("canvas").all())


def test_the_page_on_the_method(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_examples("docs/method.md", 1)
    assert (tmp_path / "figure-1.png").stat().st_size > 10_000


def test_the_page_on_maps():
    spread, evaluations = (names := run_examples("docs/maps.md", 2))["quality"](names["exact"])
    assert spread < 1e-3
    assert evaluations == 1


def test_the_page_on_the_verdict():
    names = run_examples("docs/verdict.md", 1)
    assert names["good"].verdict.converged
    assert not names["bad"].verdict.converged


def test_the_page_on_the_command_line():
    names = run_examples("docs/command-line.md", 1)
    assert names["log_density"]([0.0] * names["like"]) == 0
