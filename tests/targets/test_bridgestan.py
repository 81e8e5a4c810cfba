"""Models with BridgeStan's interface."""

import numpy as np
import pytest

import tessmc
from tessmc.targets._bridgestan import places_of


class Bare:
    """A stand-in for `bridgestan.StanModel`: N(1, I) and, on the log scale, an exponential."""

    def param_unc_num(self):
        return 3

    def log_density(self, theta_unc, *, propto=True, jacobian=True):
        assert propto
        assert jacobian
        assert theta_unc.dtype == np.float64
        return -0.5 * np.sum((theta_unc[:2] - 1) ** 2) + theta_unc[2] - np.exp(theta_unc[2])


class Picky(Bare):
    def log_density(self, theta_unc, **options):
        if theta_unc[0] > 6:
            raise RuntimeError("Rejecting initial value")
        return super().log_density(theta_unc, **options)


class Model(Bare):
    def param_names(self):
        return ["mu.1", "mu.2", "scale"]

    def param_constrain(self, theta_unc):
        return np.array([*theta_unc[:2], np.exp(theta_unc[2])])


SHORT = {"num_chains": 32, "num_warmup": 40, "num_samples": 50, "progress": False}


def test_draws_have_the_names_and_supports_of_the_model():
    result = tessmc.sample(Model(), **SHORT)
    assert {name: values.shape for name, values in result.posterior.items()} == {
        "mu": (32, 50, 2),
        "scale": (32, 50),
    }
    assert np.allclose(result.posterior["scale"], np.exp(result.unconstrained[..., 2]), rtol=1e-5)
    errors = 4 / np.sqrt(result.convergence.ess_bulk)
    assert abs(result.posterior["scale"].mean() - 1) < errors[2]
    assert abs(result.posterior["mu"].mean() - 1) < errors[0]


def test_a_model_that_tells_no_names_is_sampled_unconstrained():
    result = tessmc.sample(Bare(), **{**SHORT, "num_warmup": 10, "num_samples": 5})
    assert result.posterior["x"].shape == (32, 5, 3)


def test_errors_of_the_model_are_rejections():
    starts = np.zeros((8, 3))
    starts[::2, 0] = 7.0
    with pytest.warns(UserWarning, match="Rejecting initial value"):
        result = tessmc.sample(Picky(), init=starts, **{**SHORT, "num_chains": 8, "num_warmup": 4, "num_samples": 5})
    assert (result.posterior["x"][..., 0] < 6).all()


def test_a_model_knows_its_own_shapes():
    with pytest.raises(ValueError, match="leave out `like`"):
        tessmc.sample(Model(), like=3, **SHORT)


def test_names_of_entries_make_arrays():
    # Stan counts the first index fastest.
    names = ["a", "b.1", "b.2", "c.1.1", "c.2.1", "c.1.2", "c.2.2", "c.1.3", "c.2.3", "pair:1", "d.1"]
    found = places_of(names)
    assert {name: shape for name, (shape, _) in found.items()} == {
        "a": (),
        "b": (2,),
        "c": (2, 3),
        "pair:1": (),
        "d": (1,),
    }
    assert found["c"][1].tolist() == [3, 5, 7, 4, 6, 8]
