"""Draws for ArviZ."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from flowjax.bijections import Affine

import tessmc
from tessmc.diagnostics import import_arviz


@pytest.fixture(scope="module")
def result():
    target = tessmc.Target(
        lambda p: -0.5 * (jnp.sum((p["slope"] - 1) ** 2) + p["shift"] ** 2), {"slope": jnp.zeros(3), "shift": 0.0}
    )
    return tessmc.sample(target, num_chains=32, num_warmup=32, num_samples=50, save_warmup=True, progress=False)


def likelihood(p):
    return -0.5 * (jnp.array([0.1, 0.2, 0.4, 0.8]) - p["shift"]) ** 2


def test_arviz_reads_names_coordinates_and_who_made_them(result, tmp_path):
    arviz = import_arviz()
    found = result.to_arviz(coords={"site": ["a", "b", "c"]}, dims={"slope": ["site"]}, log_likelihood=likelihood)
    assert found.posterior["slope"].dims == ("chain", "draw", "site")
    assert found.posterior.attrs["inference_library"] == "tessmc"
    assert found.posterior.attrs["inference_library_version"] == tessmc.__version__
    assert "onverged" in found.posterior.attrs["verdict"]
    assert set(found.sample_stats.data_vars) >= {"log_density", "num_evaluations"}
    num_before = found.warmup_posterior["slope"].shape[1]
    assert 0 < num_before <= 32
    assert found.warmup_sample_stats["log_density"].shape == (32, num_before)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = arviz.summary(found)
        assert sorted(table.index) == ["shift", "slope[a]", "slope[b]", "slope[c]"]
        assert np.isfinite(arviz.loo(found).elpd_loo)
        arviz.plot_trace(found)
        found.to_netcdf(tmp_path / "draws.nc")
        assert np.array_equal(arviz.from_netcdf(tmp_path / "draws.nc").posterior["slope"], result.posterior["slope"])
        found.to_zarr(tmp_path / "draws.zarr")
        stored = xarray.open_datatree(tmp_path / "draws.zarr", engine="zarr")
        assert np.array_equal(stored["posterior"]["slope"], result.posterior["slope"])
        assert stored["posterior"].attrs["inference_library"] == "tessmc"


def test_the_likelihood_of_a_bare_array(result):
    still = Affine(jnp.zeros(2), jnp.ones(2))
    asked = {"num_chains": 8, "num_warmup": 0, "num_samples": 5, "transport": still, "progress": False}
    bare = tessmc.sample(lambda x: -jnp.sum(x**2), like=2, **asked)
    found = bare.to_arviz(log_likelihood=lambda x: x)
    assert np.array_equal(found.log_likelihood["y"], bare.posterior["x"])
    assert (bare.num_parameters, result.num_parameters) == (2, 4)
