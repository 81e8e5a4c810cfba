"""The report is opened in a browser: it says what the result does, of odd results too."""

import dataclasses
import math
import re

import jax.numpy as jnp
import numpy as np
import pytest
from flowjax.bijections import Identity

import tessmc
from tessmc.kernels import StudentT
from tessmc.report._map import worst_pair
from tessmc.report._page import COLUMNS, free_names
from tessmc.report._svg import Panel, ticks

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>$\\frac{\"'&"


def made(names=("a",), num_chains=4, num_draws=40, shape=(), **changes):
    """A result by hand: independent normal draws."""
    rng = np.random.default_rng(0)
    posterior = {name: rng.normal(size=(num_chains, num_draws, *shape)) for name in names}
    free = np.concatenate(
        [values.reshape(num_chains, num_draws, math.prod(shape)) for values in posterior.values()], axis=2
    )
    stats: dict = {"log_ratio": rng.normal(size=free.shape[:2]), "num_evaluations": np.full(free.shape[:2], 2)}
    result = tessmc.Result(
        groups={"posterior": posterior, "unconstrained_posterior": {"x": free}, "sample_stats": stats},
        num_chains=num_chains,
        num_draws=num_draws,
        num_evaluations_by_phase={"warmup": 10, "sampling": 2 * num_chains * num_draws},
        transport=Identity((free.shape[2],)),
        law=StudentT(0),
        warmup_history=[],
        timings={"total": 1.0, "sampling": 0.5},
        troubles=[],
    )
    return dataclasses.replace(result, **changes)


def opened(page, result, tmp_path):
    page.goto(result.report(tmp_path / "new" / "report.html").as_uri())
    return page


def first_column(page):
    return page.locator("#table tbody th").all_inner_texts()


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    options = {"num_chains": 16, "num_warmup": 16, "num_samples": 20, "progress": False}
    folder = tmp_path_factory.mktemp("run") / "run"
    return tessmc.sample(lambda x: -jnp.sum(x**2) / 2, like=2, run_dir=folder, seed=3, **options)


def test_a_run_is_told_in_all_its_parts(page, sampled, tmp_path):
    opened(page, sampled, tmp_path)
    assert page.locator("h1").inner_text() == ("Converged" if sampled.verdict.converged else "Not converged")
    assert page.locator(".reasons li").all_inner_texts() == sampled.verdict.reasons
    assert first_column(page) == ["x[0]", "x[1]"]
    # Two traces, two of ranks, a pair plot, three diagnostics, at least s in the warm-up, and five of the map.
    assert page.locator("svg[role=img]").count() >= 14
    for picture in page.locator("svg[role=img]").all():
        box = picture.bounding_box()
        assert box["width"] > 100
        assert box["height"] > 100
        assert picture.get_attribute("aria-label")
    assert "seed=3," in page.locator("pre").inner_text()
    assert "window" in page.locator("#warmup ~ .wide").inner_text()


def test_a_loaded_run_is_told_as_it_was(page, sampled, tmp_path):
    opened(page, sampled, tmp_path)
    before = page.locator("#table").inner_text(), page.locator("pre").inner_text(), page.locator("svg").count()
    opened(page, tessmc.load(sampled.run_dir), tmp_path)
    assert (
        page.locator("#table").inner_text(),
        page.locator("pre").inner_text(),
        page.locator("svg").count(),
    ) == before


@pytest.mark.parametrize("way", ["click", "keyboard"])
def test_the_table_sorts(way, page, tmp_path):
    opened(page, made(["a10", "a9", "b"]), tmp_path)

    def press(name):
        button = page.locator("#table thead button", has_text=name)
        if way == "click":
            button.click()
        else:
            button.focus()
            page.keyboard.press("Enter")

    press("parameter")
    assert first_column(page) == ["a9", "a10", "b"]
    press("mean")
    means = [float(cell) for cell in page.locator("#table tbody td:nth-child(2)").evaluate_all(
        "cells => cells.map(cell => cell.dataset.value)")]  # fmt: skip
    assert means == sorted(means)
    press("mean")
    assert (
        first_column(page)[0]
        == ["a10", "a9", "b"][
            int(np.argmax([made(["a10", "a9", "b"]).posterior[n].mean() for n in ("a10", "a9", "b")]))
        ]
    )
    assert page.locator("#table th[aria-sort=descending]").inner_text().startswith("mean")
    assert page.locator("#table th[aria-sort=ascending]").count() == 0


def test_a_hostile_name_is_text(page, tmp_path):
    opened(page, made([HOSTILE, "名前 αβγ", "long" * 80]), tmp_path)
    assert first_column(page)[0] == HOSTILE
    assert "owned" not in page.title()
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1
    assert HOSTILE[:20] in "".join(page.locator("svg[role=img]").all_text_contents())


def test_three_hundred_parameters(page, tmp_path):
    result = made(["theta"], shape=(300,))
    path = result.report(tmp_path / "many.html")
    assert path.stat().st_size < 3e6
    page.goto(path.as_uri())
    assert len(first_column(page)) == 300
    assert "Of 300 parameters 6 are shown" in page.locator("#chains ~ p").inner_text()


def luminance(color):
    parts = np.array([float(part) for part in color[color.index("(") + 1 : -1].split(",")[:3]]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_light_and_dark_have_contrast_and_paper_is_light(page, tmp_path):
    backs = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        opened(page, made(["a", "b"]), tmp_path)
        backs[scheme] = luminance(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
        for query, which in (("h1", "color"), (".soft", "color"), ("svg text", "fill"), ("svg .line", "stroke")):
            ink = luminance(page.evaluate(f"getComputedStyle(document.querySelector('{query}')).{which}"))
            light, dark = max(ink, backs[scheme]), min(ink, backs[scheme])
            assert (light + 0.05) / (dark + 0.05) > 4.5, (scheme, query)
    assert backs["dark"] < 0.05 < 0.8 < backs["light"]
    page.emulate_media(color_scheme="dark", media="print")
    assert luminance(page.evaluate("getComputedStyle(document.documentElement).backgroundColor")) == 1
    assert not page.locator("nav").is_visible()


def test_a_narrow_page_does_not_scroll_sideways(page, tmp_path):
    page.set_viewport_size({"width": 390, "height": 800})
    opened(page, made(["a", "b", "long" * 80]), tmp_path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


PAPER = [
    {"iteration": i, "loss": 3.0 / (i + 1), "s": np.inf if i == 0 else 1.0, "num_evaluations": i} for i in range(90)
]
ODD = {
    "no draws": made(num_draws=0, transport=None, law=None, is_complete=False, reason="stopped by a signal"),
    "no map": made(transport=None, law=None),
    "one chain": made(num_chains=1),
    "a matrix": made(["m"], shape=(2, 3)),
    "a long paper warm-up": made(warmup_history=PAPER),
    "a Student-t": made(["a", "b"], law=StudentT(5)),
    "no time known": made(timings={"total": 0.0}, num_evaluations_by_phase={}),
    "constant": made(groups={**made().groups, "posterior": {"a": np.ones((4, 40))}}),
    "integers": made(groups={**made().groups, "posterior": {"n": np.arange(160).reshape(4, 40) % 7}}),
    "some kept": made(groups={name: made().groups[name] for name in ("posterior", "sample_stats")}),
    "two draws": made(num_draws=2),
}  # fmt: skip


@pytest.mark.parametrize("result", ODD.values(), ids=ODD.keys())
def test_an_odd_result_has_a_page(result, page, tmp_path):
    opened(page, result, tmp_path)
    assert page.locator("h1").inner_text() == "Not converged"
    assert page.locator(".reasons li").all_inner_texts() == result.verdict.reasons
    assert page.locator("section h2").count() == 8
    paths = page.locator("path").evaluate_all("paths => paths.map(path => path.getAttribute('d')).join()")
    assert "nan" not in paths.lower()


def test_the_warm_ups_table_fits_the_page_and_names_the_laws(page, tmp_path):
    entry = dict.fromkeys(COLUMNS, -1234.5) | {"stage": "window", "rung": "couplings"}
    opened(page, made(warmup_history=[entry | {"dof": 0}, entry | {"dof": 5}]), tmp_path)
    table = page.get_by_role("region", name="The warm-up, window by window")
    assert "Gaussian" in table.inner_text()
    assert "t, 5 d.f." in table.inner_text()
    assert table.evaluate("region => region.scrollWidth <= region.clientWidth")


def test_a_free_coordinate_has_the_name_of_the_parameter_that_it_is():
    result = made(["a", "b", "scale"])
    assert free_names(result, result.groups["unconstrained_posterior"]["x"]) == ["a", "b", "scale"]
    free = result.groups["unconstrained_posterior"]["x"][..., [1, 0, 2]]
    free[..., 2] = np.log(np.abs(free[..., 2]))
    assert free_names(result, free) == [f"free coordinate {place}" for place in (1, 2, 3)]
    assert free_names(made(["a", "b"]), free) == [f"free coordinate {place}" for place in (1, 2, 3)]


def test_the_pair_that_depends_on_each_other_is_found():
    points = np.random.default_rng(0).normal(size=(2000, 6))
    points[:, 4] += points[:, 1] ** 2
    assert worst_pair(points) == [1, 4]


def test_ticks_are_round_and_inside():
    assert ticks(-0.1, 1.05) == pytest.approx([0, 0.5, 1])
    assert all(-3 <= tick <= 7 for tick in ticks(-3, 7))


def test_settings_are_told_as_one_would_write_them(page, sampled, tmp_path):
    opened(page, sampled, tmp_path)
    settings = page.locator("#reproduce ~ .grid table").first.inner_text()
    for row in ("seed\t3", "warmup\tWarmup.auto()", "transport\t–"):
        assert row in settings


def test_ticks_that_are_close_have_names_of_their_own():
    panel = Panel((0, 1), (1.009, 1.0115))
    panel.axes()
    words = re.findall(r">([^<>]+)</text>", "".join(panel.words))
    assert len(set(words)) == len(words) == len(ticks(0, 1)) + len(ticks(1.009, 1.0115))
