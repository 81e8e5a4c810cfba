"""Pictures have the panels that they should have."""

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest

from tessmc.models import BananaMap, banana
from tessmc.report import figure_one, pair_plot, side_by_side


@pytest.mark.parametrize(("dim", "num_panels"), [(2, 1), (3, 6)])
def test_a_pair_plot_has_a_panel_for_each_pair_and_histograms(dim, num_panels, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plt, "close", drawn.append)
    rng = np.random.default_rng(0)
    clouds = {"draws": rng.normal(size=(300, dim)), "others": rng.normal(size=(50, dim))}
    pair_plot(clouds, ["a", "b", "c"][:dim], tmp_path / "new" / "pairs.png", max_points=100)
    (figure,) = drawn
    panels = [panel for panel in figure.axes if panel.get_visible()]
    assert len(panels) == num_panels
    pairs = [panel for panel in panels if panel.lines]
    assert len(pairs) == dim * (dim - 1) // 2
    assert [len(line.get_xdata()) for line in pairs[0].lines] == [100, 50]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["draws", "others"]
    assert (tmp_path / "new" / "pairs.png").read_bytes().startswith(b"\x89PNG")


def test_clouds_side_by_side_share_their_axes(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plt, "close", drawn.append)
    clouds = {"draws": np.random.default_rng(0).normal(size=(300, 2)), "others": np.full((50, 2), 9.0)}
    side_by_side(clouds, ["a", "b"], tmp_path / "clouds.png", max_points=100)
    (figure,) = drawn
    left, right = figure.axes
    assert [len(panel.lines[0].get_xdata()) for panel in (left, right)] == [100, 50]
    assert left.get_xlim() == right.get_xlim()
    assert [panel.get_title() for panel in (left, right)] == ["draws", "others"]


def test_figure_one_has_a_row_for_each_map_and_few_programs(tmp_path, monkeypatch):
    drawn, programs = [], []
    monkeypatch.setattr(plt, "close", drawn.append)
    draws = np.asarray(jax.vmap(BananaMap().transform)(jax.random.normal(jax.random.key(0), (200, 2))))

    def listen(name, _, **about):
        if name == "/jax/core/compile/jaxpr_to_mlir_module_duration":
            programs.append(about["fun_name"])

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        figure_one(banana(), {"one": BananaMap(), "two": BananaMap()}, draws, tmp_path / "one.png")
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    (figure,) = drawn
    assert [panel.get_title() for panel in figure.axes[::2]] == ["Target space, one", "Target space, two"]
    for target_space, reference_space in np.reshape(figure.axes, (2, 2)):
        for panel in (target_space, reference_space):
            assert [line.get_label() for line in panel.lines] == ["draws", "one ellipse", "where it starts"]
        np.testing.assert_allclose(
            jax.vmap(BananaMap().transform)(reference_space.lines[1].get_xydata()),
            target_space.lines[1].get_xydata(),
            atol=1e-3,
        )
    # Step by step on the host a map is a hundred programs, which every process compiles or looks for anew.
    assert len(programs) < 30, programs
