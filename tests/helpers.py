"""Maps, densities and z-scores that several tests share."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flowjax.bijections import AbstractBijection, Affine, Identity, TriangularAffine

from tessmc._arrays import put
from tessmc.adaptation._fit import trainable
from tessmc.experiments import SAMPLERS, Task
from tessmc.models import BananaMap
from tessmc.targets import Target
from tessmc.transports import FixedAffine, Tails, ladder_map, paper_coupling


class Sinh(AbstractBijection):
    """x = sinh(u): its Jacobian varies, so that a wrong log-determinant shows in the second moment."""

    shape: tuple[int, ...] = eqx.field(static=True)
    cond_shape: None = eqx.field(default=None, static=True)

    def transform_and_log_det(self, x, condition=None):
        return jnp.sinh(x), jnp.sum(jnp.log(jnp.cosh(x)))

    def inverse_and_log_det(self, y, condition=None):
        return jnp.arcsinh(y), -jnp.sum(jnp.log1p(y**2)) / 2


class WithoutLogDet(AbstractBijection):
    """A planted bug: a map that forgets its log-determinant."""

    bijection: AbstractBijection
    shape: tuple[int, ...] = eqx.field(static=True)
    cond_shape: None = eqx.field(default=None, static=True)

    def transform_and_log_det(self, x, condition=None):
        y, log_det = self.bijection.transform_and_log_det(x)
        return y, 0 * log_det

    def inverse_and_log_det(self, y, condition=None):
        x, log_det = self.bijection.inverse_and_log_det(y)
        return x, 0 * log_det


def shaken(transport: AbstractBijection, seed: int = 7, scale: float = 0.3) -> AbstractBijection:
    """A map away from the identity, as if it had been trained: every parameter moved at random."""
    rng = np.random.default_rng(seed)
    parameters, fixed = trainable(transport)
    # By NumPy: JAX would compile a program for the shape of every array.
    moved = jax.tree.map(
        lambda leaf: put(np.asarray(leaf) + scale * rng.standard_normal(leaf.shape), leaf.dtype), parameters
    )
    return eqx.combine(moved, fixed)


def all_transports() -> dict[str, AbstractBijection]:
    """The family list: a new map is tested by joining it. Made anew, in the precision of the moment."""
    key = jr.key(0)
    return {
        "identity": Identity((3,)),
        "affine": Affine(jnp.array([1.0, -2.0, 0.5]), jnp.array([0.3, 2.0, 1.0])),
        "triangular": TriangularAffine(jnp.ones(2), jnp.array([[2.0, 0.0], [-1.0, 0.5]])),
        "sinh": Sinh((2,)),
        "banana": BananaMap(),
        "fixed_affine": FixedAffine(
            np.array([1.0, -0.5]), np.array([0.5, 3.0]), np.array([[1.0, 0.0], [0.8, 0.6]]), jnp.zeros(0).dtype
        ),
        "tails": shaken(Tails(3), scale=1.0),
        "ladder_1d": shaken(ladder_map(key, 1, jnp.zeros(0).dtype), scale=0.1),
        "ladder_3d": shaken(ladder_map(key, 3, jnp.zeros(0).dtype), scale=0.1),
        "coupling_1d": shaken(paper_coupling(key, 1)),
        # Of two hidden units, both may be dead everywhere.
        "coupling_2d": shaken(paper_coupling(key, 2, width=8)),
        "coupling_5d": shaken(paper_coupling(key, 5)),
        "coupling_8d_wide": shaken(
            paper_coupling(key, 8, num_layers=3, width=32, depth=1, activation=jnp.tanh), scale=0.1
        ),
    }


TRANSPORTS = list(all_transports())


def standard_normal(x):
    return -jnp.sum(x**2) / 2


def z_score(values, expected) -> float:
    """How many standard errors the mean of independent values lies from what it should be."""
    values = jnp.asarray(values, float)
    return float((jnp.mean(values) - expected) / (jnp.std(values) / jnp.sqrt(values.size)))


def check_peer(name):
    """Two batches of a peer on a Gaussian: its moments, and what was paid."""
    mean, sd = np.array([1.0, -2.0, 0.5]), np.array([1.0, 0.5, 2.0])
    target = Target(lambda x: -jnp.sum(((x - mean) / sd) ** 2) / 2, jnp.zeros(3))
    task = Task(target, jr.key(0), num_chains=32, num_warmup=100, num_draws=100)
    # Peers promote ranks, as they may.
    with jax.numpy_rank_promotion("allow"):
        first, second = itertools.islice(SAMPLERS[name](task), 2)
    assert min(first.draws.shape[1], second.draws.shape[1]) >= 100
    draws = np.concatenate([first.draws, second.draws], axis=1).astype(float)
    # Walkers of 100 steps are far from independent: the bounds are loose for all.
    assert np.all(np.abs(draws.mean(axis=(0, 1)) - mean) < 0.2 * sd)
    assert np.all(np.abs(draws.std(axis=(0, 1)) / sd - 1) < 0.15)
    # Nobody draws without asking, and the first batch pays for the warm-up.
    paid = [batch.num_evaluations + batch.num_gradients for batch in (first, second)]
    assert paid[1] >= second.draws[..., 0].size
    # pocoMC begins anew for every batch.
    assert name == "pocomc" or paid[0] / first.draws[..., 0].size > paid[1] / second.draws[..., 0].size
