"""`sample` from end to end: right answers, honest accounts, and sentences for what does not fit."""

import subprocess
import sys
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from flowjax.bijections import Affine, Identity
from numpyro.distributions import constraints

import tessmc
from tessmc import DensityError, Warmup
from tessmc.models import BananaMap, banana
from tessmc.sampling._troubles import light_tails, standing, unseen

QUICK = Warmup.paper(num_initial_steps=50, num_initial_draws=64)


def normal(x):
    return -jnp.sum(x**2) / 2


@pytest.fixture(scope="module")
def result():
    return tessmc.sample(banana(), num_chains=64, num_warmup=100, num_samples=200, seed=1, warmup=QUICK, progress=False)


# --- the answer ----------------------------------------------------------------------------------


def test_the_banana_has_its_moments(result):
    x = result.posterior["x"]
    errors = np.sqrt(1 / result.convergence.ess_bulk)
    assert abs(x[..., 0].mean()) / np.sqrt(8) < 4 * errors[0]
    assert abs(x[..., 1].mean() - 2) / 3 < 4 * errors[1]
    assert abs(x[..., 0].std() / np.sqrt(8) - 1) < 0.1


def test_a_result_has_what_it_promises(result):
    assert result.posterior["x"].shape == result.unconstrained.shape == (64, 200, 2)
    assert {values.shape for values in result.stats.values()} == {(64, 200)}
    assert set(result.timings) == {"compile", "warmup", "fit", "sampling", "total"}
    assert all(seconds >= 0 for seconds in result.timings.values())
    assert sum(v for k, v in result.timings.items() if k != "total") <= result.timings["total"]
    assert [entry["iteration"] for entry in result.warmup_history] == list(range(101))  # the first fit, then epochs
    assert result.is_complete
    assert result.troubles == []
    assert result.transport.shape == (2,)


def test_evaluations_add_up(result):
    assert result.num_evaluations_by_phase["sampling"] == result.stats["num_evaluations"].sum()
    assert result.num_evaluations == sum(result.num_evaluations_by_phase.values())
    assert result.num_evaluations_by_phase["fit"] == 50 * 64


def test_stored_log_densities_are_those_of_the_draws(result):
    again = jax.vmap(jax.vmap(banana().log_density))(result.unconstrained)
    assert np.allclose(again, result.stats["log_density"], atol=1e-4)


def test_the_summary_is_a_table_and_a_verdict(result):
    summary = result.summary()
    assert list(summary.table.index) == ["x[0]", "x[1]"]
    assert summary.table.loc["x[1]", "mean"] == pytest.approx(result.posterior["x"][..., 1].mean(), abs=1e-3)
    assert summary.table.loc["x[0]", "5%"] < summary.table.loc["x[0]", "50%"] < summary.table.loc["x[0]", "95%"]
    text = str(summary)
    assert "64 chains × 200 draws" in text
    assert text.splitlines()[-1].startswith(("Converged: ", "Not converged: "))
    assert "<table" in summary._repr_html_()


def test_arviz_gets_the_draws(result):
    data = result.to_arviz()
    assert data["posterior"]["x"].shape == (64, 200, 2)
    assert "log_density" in data["sample_stats"]


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    runs = [
        tessmc.sample(
            normal, like=2, num_chains=8, num_warmup=3, num_samples=5, seed=seed, warmup=QUICK, progress=False
        )
        for seed in (5, 5, jr.key(5), jr.PRNGKey(5), np.int64(6))
    ]
    first, *others, different = [run.unconstrained for run in runs]
    assert all(np.array_equal(first, other) for other in others)
    assert not np.array_equal(first, different)


def test_constrained_draws_keep_names_shapes_and_supports():
    """Gamma(3, 1) and a flat simplex: known means."""

    def log_density(p):
        return 2 * jnp.log(p["rate"]) - p["rate"] - jnp.sum(p["z"] ** 2) / 2

    result = tessmc.sample(
        log_density,
        like={"rate": 1.0, "weights": jnp.ones(3) / 3, "z": jnp.zeros((2, 2))},
        support={"rate": constraints.positive, "weights": constraints.simplex, "z": None},
        num_chains=64,
        num_warmup=50,
        num_samples=200,
        warmup=QUICK,
        progress=False,
    )
    shapes = {name: values.shape[2:] for name, values in result.posterior.items()}
    assert shapes == {"rate": (), "weights": (3,), "z": (2, 2)}
    assert result.unconstrained.shape[2] == 1 + 2 + 4
    assert np.all(result.posterior["rate"] > 0)
    assert np.allclose(result.posterior["weights"].sum(-1), 1, atol=1e-5)
    assert result.parameter_names == [
        "rate",
        "weights[0]",
        "weights[1]",
        "weights[2]",
        "z[0, 0]",
        "z[0, 1]",
        "z[1, 0]",
        "z[1, 1]",
    ]
    errors = 4 / np.sqrt(result.convergence.ess_bulk)
    assert abs(result.posterior["rate"].mean() - 3) / np.sqrt(3) < errors[0]
    assert np.all(np.abs(result.posterior["weights"].mean((0, 1)) - 1 / 3) / np.sqrt(1 / 18) < errors[1:4])


def test_a_fixed_map_samples_without_warmup():
    result = tessmc.sample(banana(), transport=BananaMap(), num_chains=32, num_warmup=0, num_samples=50, progress=False)
    assert np.all(result.stats["num_evaluations"] == 1)
    assert result.warmup_history == []


def test_one_chain_and_one_dimension():
    result = tessmc.sample(normal, like=1, num_chains=1, num_warmup=5, num_samples=10, warmup=QUICK, progress=False)
    assert result.unconstrained.shape == (1, 10, 1)
    assert not result.verdict.converged


def test_init_places_the_chains_and_says_the_shape():
    init = {"a": 50 + 0.01 * np.arange(8.0), "b": np.full((8, 2), 3.0)}
    target = lambda p: -((p["a"] - 50) ** 2) - jnp.sum((p["b"] - 3) ** 2)  # noqa: E731
    result = tessmc.sample(target, init=init, num_chains=8, num_warmup=0, num_samples=1, progress=False)
    assert np.all(np.abs(result.posterior["a"] - 50) < 20)
    assert result.posterior["b"].shape == (8, 1, 2)


def test_bad_points_of_init_are_replaced_by_points_of_its_spread():
    init = np.linspace(0.9, 1.1, 16)[:, None]
    result = tessmc.sample(
        lambda x: jnp.where(x[0] > 1, -x[0], -jnp.inf),
        init=init,
        num_chains=16,
        num_warmup=0,
        num_samples=1,
        transport=Affine(jnp.ones(1), jnp.ones(1)),
        progress=False,
    )
    assert np.all(result.posterior["x"] > 1)


# --- precision -----------------------------------------------------------------------------------


def test_draws_have_the_precision_of_like_and_the_flag_is_left_alone(dtype):
    before = jax.config.jax_enable_x64
    result = tessmc.sample(
        normal, like=jnp.zeros(2, dtype), num_chains=4, num_warmup=2, num_samples=3, warmup=QUICK, progress=False
    )
    assert result.unconstrained.dtype == result.posterior["x"].dtype == dtype
    assert jax.config.jax_enable_x64 == before


def test_float32_targets_work_in_a_float64_session():
    with jax.enable_x64(True):
        like, init = jnp.zeros(2, jnp.float32), np.ones((4, 2))
        settings = {"num_chains": 4, "num_warmup": 2, "num_samples": 3, "warmup": QUICK, "progress": False}
        for warmup in (QUICK, tessmc.Warmup.auto()):
            result = tessmc.sample(normal, like=like, init=init, **{**settings, "warmup": warmup})
            assert result.unconstrained.dtype == np.float32
    # A map of one precision starts a run in the other.
    single_map = tessmc.sample(normal, like=2, **settings).transport
    with jax.enable_x64(True):
        assert tessmc.sample(normal, like=2, transport=single_map, **settings).unconstrained.dtype == np.float64
        double_map = tessmc.sample(normal, like=2, **settings).transport
        assert tessmc.sample(normal, like=like, transport=double_map, **settings).unconstrained.dtype == np.float32


def far_down(x):
    return normal(x) - 3e8


def cancelling(x):
    """Rounding far above the slice's scale, in a value that is small itself."""
    return normal(x) + jnp.sum(3e7 * jnp.cos(x) ** 2 + 3e7 * jnp.sin(x) ** 2 - 3e7)


@pytest.mark.parametrize("log_density", [far_down, cancelling])
def test_rounding_that_drowns_the_slice_is_warned_of(log_density):
    settings = {"like": 3, "num_chains": 32, "num_warmup": 0, "num_samples": 5, "progress": False}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = tessmc.sample(log_density, **settings)
    assert "in float32 the log density is only known to about" in str(caught[0].message)
    assert not result.verdict.converged
    with jax.enable_x64(True):
        assert tessmc.sample(log_density, **settings).troubles == []


# --- bad values ----------------------------------------------------------------------------------


def test_nan_densities_are_outside_and_reported():
    with pytest.warns(UserWarning, match="NaN at .* points tried"):
        result = tessmc.sample(
            lambda x: -(jnp.log(x[0]) ** 2) - x[0], like=1, num_chains=16, num_warmup=0, num_samples=50, progress=False
        )
    assert np.all(np.isfinite(result.unconstrained))
    assert np.all(result.posterior["x"] > 0)
    assert np.all(np.isfinite(result.stats["log_density"]))


def test_plus_infinity_is_an_error_that_names_the_point():
    def log_density(p):
        return jnp.where(p["scale"] < 0.5, jnp.inf, -p["scale"])

    with pytest.raises(DensityError, match=r"\+inf at scale = 0\.\d+ \(chain \d+\)"):
        tessmc.sample(
            log_density, like={"scale": 1.0}, support=constraints.positive, num_warmup=5, warmup=QUICK, progress=False
        )


def test_a_density_without_support_is_an_error_that_names_chain_and_coordinates():
    with pytest.raises(DensityError, match=r"chain 0 found no start: the log density is -inf at x = \[.*\]"):
        tessmc.sample(lambda x: -jnp.inf * jnp.sum(x**2), like=2, num_chains=4, num_warmup=0, progress=False)


def test_starts_outside_the_support_are_drawn_anew():
    result = tessmc.sample(
        lambda x: jnp.where(x[0] > 1, -x[0], -jnp.inf),
        like=1,
        num_chains=64,
        num_warmup=0,
        num_samples=5,
        progress=False,
    )
    assert np.all(result.posterior["x"] > 1)


def test_a_map_that_moves_chains_out_of_the_support_does_no_harm():
    """Algorithm 2 keeps u when the map changes, and x may fall where the density is -inf."""
    result = tessmc.sample(
        lambda x: jnp.where(jnp.sum(x**2) < 1, 0.0, -jnp.inf),
        like=2,
        num_chains=32,
        num_warmup=30,
        num_samples=20,
        warmup=Warmup.paper(num_initial_steps=0, learning_rate=0.1),
        progress=False,
    )
    assert np.all((result.posterior["x"] ** 2).sum(-1) < 1)


def test_stuck_chains_are_reported():
    def comb(x):  # a point mass beside a far slab: from the point nothing else is inside
        return jnp.where(x[0] == 0, 30.0, jnp.where(jnp.abs(x[0]) > 50, 0.0, -jnp.inf))

    with pytest.warns(UserWarning, match="draws repeat the one before"):
        result = tessmc.sample(comb, init=np.zeros((4, 1)), num_chains=4, num_warmup=0, num_samples=3, progress=False)
    assert result.stats["is_stuck"].all()
    assert not result.verdict.converged


# --- bad input -----------------------------------------------------------------------------------

REFUSED = {
    "no shape": ({"like": None}, ValueError, "pass `like`"),
    "no chains": ({"num_chains": 0}, ValueError, "`num_chains` should be at least 1, but is 0"),
    "negative warm-up": ({"num_warmup": -1}, ValueError, "`num_warmup` should be at least 0, but is -1"),
    "no draws": ({"num_samples": 0}, ValueError, "`num_samples` should be at least 1"),
    "a fraction": ({"num_samples": 1.5}, TypeError, "`num_samples` should be an int, but is 1.5"),
    "a truth": ({"num_chains": True}, TypeError, "should be an int"),
    "a float seed": ({"seed": 1.5}, TypeError, "`seed` should be an int or one JAX key"),
    "a word for a seed": ({"seed": "abc"}, TypeError, "`seed` should be an int or one JAX key"),
    "many keys": ({"seed": jr.split(jr.key(0))}, TypeError, "one JAX key"),
    "a negative seed": ({"seed": -1}, ValueError, "between 0 and"),
    "a huge seed": ({"seed": 2**32}, ValueError, "between 0 and"),
    "a map of another dimension": ({"transport": Identity((3,))}, ValueError, r"shape \(2,\) .* has shape \(3,\)"),
    "no map": ({"transport": jnp.exp}, TypeError, "FlowJAX bijection"),
    "no warm-up": ({"warmup": "paper"}, TypeError, "made by tessmc.Warmup"),
    "an untrainable map": ({"transport": Identity((2,)), "warmup": QUICK}, ValueError, "pass num_warmup=0"),
    "init of 64 chains": (
        {"init": np.zeros((64, 2))}, ValueError, "`init` has 64 chains but num_chains is 128; pass num_chains=64",
    ),
    "init without chains": ({"init": np.zeros(2)}, ValueError, r"should have shape \(128, 2\), chains first"),
    "init of another tree": ({"init": {"a": np.zeros((128, 2))}}, ValueError, "structure of `like`"),
    "init of integers": ({"init": np.zeros((128, 2), int)}, TypeError, "`init` should hold floats"),
    "init of NaN": ({"init": np.full((128, 2), np.nan)}, ValueError, "`x` in chain 0 is"),
    "init out of support": (
        {"init": np.full((128, 2), -1.0), "support": constraints.positive}, ValueError, "outside its support Positive",
    ),
    "init of plain numbers": ({"like": None, "init": 0.5}, ValueError, "leading chain axis"),
    "init on the boundary": (
        {"init": np.zeros((128, 2)), "support": constraints.unit_interval}, ValueError, "chain 0 lies on the boundary",
    ),
    "support of a target": ({"target": banana()}, ValueError, "leave out `like`"),
    "no density": ({"target": "banana"}, TypeError, "should be a log density"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_before_anything_is_compiled(case, monkeypatch):
    change, kind, sentence = REFUSED[case]
    settings = {"target": normal, "like": 2, "progress": False, **change}
    for name in ("_paper.prepare", "_paper.fit", "_auto.prepare", "_windows.fit"):
        monkeypatch.setattr(f"tessmc.adaptation.{name}", None)
    with pytest.raises(kind, match=sentence):
        tessmc.sample(settings.pop("target"), **settings)


# --- manners -------------------------------------------------------------------------------------


def test_nothing_is_printed(capfd):
    tessmc.sample(normal, like=1, num_chains=4, num_warmup=2, num_samples=2, warmup=QUICK)
    assert capfd.readouterr() == ("", "")


def test_import_changes_no_global_setting():
    program = """
import jax, logging, os, sys
import numpy as np
before = dict(jax.config.values), dict(os.environ), np.random.get_state()[1].tolist(), list(logging.root.handlers)
import tessmc
after = dict(jax.config.values), dict(os.environ), np.random.get_state()[1].tolist(), list(logging.root.handlers)
assert before == after
assert not logging.getLogger("tessmc").handlers
assert not {"arviz", "matplotlib.pyplot", "pandas"} & set(sys.modules), "imported before it is needed"
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_other_counts_compile_nothing_new():
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, *_, **__: compiled.append(name) if "backend_compile" in name else None
    )
    settings = {"num_chains": 6, "warmup": QUICK, "progress": False}
    tessmc.sample(banana(), num_warmup=2, num_samples=3, **settings)
    assert compiled
    compiled.clear()
    tessmc.sample(banana(), num_warmup=5, num_samples=40, **settings)
    assert compiled == []


def test_zeros_of_a_triangle_do_not_spoil_the_verdict():
    result = tessmc.sample(
        lambda x: -jnp.sum(x**2),
        like=jnp.eye(2),
        support=constraints.lower_cholesky,
        num_chains=64,
        num_warmup=50,
        num_samples=100,
        warmup=QUICK,
        progress=False,
    )
    assert np.all(result.posterior["x"][..., 0, 1] == 0)
    assert not any("cannot be computed" in reason for reason in result.verdict.reasons)
    assert np.isnan(result.summary().table.loc["x[0, 1]", "r_hat"])


def test_a_trained_map_is_a_start_for_another_run():
    settings = {"num_chains": 8, "num_samples": 2, "progress": False}
    first = tessmc.sample(normal, like=2, num_warmup=2, warmup=QUICK, **settings)
    again = tessmc.sample(normal, like=2, num_warmup=0, transport=first.transport, **settings)
    assert eqx.tree_equal(again.transport, first.transport)
    shifted = Affine(jnp.ones(2), jnp.ones(2))
    trained = tessmc.sample(normal, like=2, num_warmup=2, transport=shifted, warmup=QUICK, **settings).transport
    assert isinstance(trained, Affine)
    assert not np.allclose(trained.loc, 1)


def test_a_tail_seen_by_a_few_long_visits_is_reported():
    ratios = np.zeros((20, 400))
    assert light_tails(ratios) == []
    ratios[3, 100:107] = 6.0  # less than a thousandth of all draws: whatever its weight, no mean depends on it
    assert light_tails(ratios) == []
    ratios[3, 100:300] = 6.0
    (sentence,) = light_tails(ratios)
    assert sentence.startswith("1 chain came into a tail")
    ratios[:, ::4] = 6.0  # visited all the time: known well
    assert light_tails(ratios) == []


def test_what_only_wider_draws_or_walks_found_is_reported():
    assert unseen([]) == []
    assert unseen([{"stage": "window", "share_unseen": 1e-4}]) == []
    (sentence,) = unseen([{"share_unseen": 0.0}, {"share_unseen": 0.021}])
    assert sentence.startswith("about 2.1% of the target")
    assert unseen([{"num_beyond": 2}]) == []
    (sentence,) = unseen([{"share_unseen": 0.0, "num_beyond": 3}])
    assert sentence.startswith("3 random walks from the outermost draws")
    (sentence,) = unseen([{"num_forgotten": 1}])
    assert sentence.startswith("1 of the starts")


def test_chains_that_hardly_move_are_counted():
    is_stuck = np.zeros((200, 100), bool)
    is_stuck[:, ::7] = True
    assert standing(is_stuck) == []
    is_stuck[3, 5:] = True
    (sentence,) = standing(is_stuck)
    assert sentence.startswith("1 of 200 chains hardly move")


def test_chains_in_two_modes_are_named():
    def log_density(x):
        return jnp.logaddexp(-0.5 * x[0] ** 2, -0.5 * (x[0] - 100) ** 2)

    still = Affine(jnp.zeros(1), jnp.ones(1))
    init = np.concatenate([np.zeros((10, 1)), np.full((6, 1), 100.0)])
    result = tessmc.sample(log_density, init=init, num_chains=16, num_warmup=0, transport=still, progress=False)
    assert "10 around" in str(result.verdict)
    assert "and 6 around" in str(result.verdict)
