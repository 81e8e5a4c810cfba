"""Pictures have the panels that they should have."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from tessmc.report import pair_plot, side_by_side


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
