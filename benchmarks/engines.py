"""The tick engine against lockstep, `vmap` of a `while_loop`: same target, map, streams and draws.

The target is a logistic regression with d = 51 and 1000 rows in float32, written as a matmul and a softplus; the map is
affine, from the mode and the Hessian there. With a weak signal the posterior is nearly Gaussian and the map fits; with
a strong one it does not, chains stay long in the tails, and all wait for the last of them at the end of a run. Both
engines make the same draws, which is checked, and hand them over as arrays. Runs alternate; ratios are of medians.
"""

import statistics
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from flowjax.bijections import TriangularAffine

from tessmc._random import straight
from tessmc.engines import collect, place_chains
from tessmc.kernels import TransportEllipticalSlice

DIM, NUM_ROWS = 51, 1000
SIGNALS = {"weak": 0.3, "strong": 1.0}
# Draws of a run and how often it is repeated, by number of chains.
RUNS = {1: (20_000, 9), 8: (4000, 7), 128: (1000, 5), 1024: (500, 3)}


class LogisticRegression(eqx.Module):
    """log π(x) of a logistic regression with a standard normal prior."""

    features: jax.Array
    labels: jax.Array

    def __call__(self, x):
        logits = self.features @ x
        return self.labels @ logits - jnp.sum(jax.nn.softplus(logits)) - x @ x / 2


def make_kernel(signal: float) -> TransportEllipticalSlice:
    key_features, key_weights, key_labels = jr.split(jr.key(0), 3)
    features = jr.uniform(key_features, (NUM_ROWS, DIM), minval=-1.0).at[:, 0].set(1.0)
    weights = signal * jr.normal(key_weights, (DIM,))
    labels = jr.bernoulli(key_labels, jax.nn.sigmoid(features @ weights)).astype(jnp.float32)
    density = LogisticRegression(features, labels)
    mode = jnp.zeros(DIM)
    for _ in range(20):
        mode = mode - jnp.linalg.solve(jax.hessian(density)(mode), jax.grad(density)(mode))
    covariance = -jnp.linalg.inv(jax.hessian(density)(mode))
    return TransportEllipticalSlice(density, TriangularAffine(mode, jnp.linalg.cholesky(covariance)))


@eqx.filter_jit
def lockstep(kernel, key, references, num_draws):
    keys = jax.vmap(lambda chain: jr.fold_in(straight(key), chain))(jnp.arange(len(references)))

    def draw(states, iteration):
        step_keys = jax.vmap(lambda key: jr.fold_in(key, iteration))(keys)
        states, infos = jax.vmap(kernel.step)(step_keys, states)
        return states, (states.position, infos.num_tries)

    return jax.lax.scan(draw, jax.vmap(kernel.evaluate)(references), jnp.arange(num_draws))[1]


def seconds(run) -> tuple[float, tuple]:
    began = time.perf_counter()
    out = run()
    return time.perf_counter() - began, out


def compare(kernel: TransportEllipticalSlice, num_chains: int) -> None:
    num_draws, num_repeats = RUNS[num_chains]
    key = jr.key(1)
    references = jr.normal(jr.key(2), (num_chains, DIM))
    # Away from the start: how long a chain searches there is not what is compared.
    chains, _ = collect(kernel, place_chains(key, references), 50)
    references = chains.state.reference

    def by_lockstep():
        positions, num_tries = jax.device_get(lockstep(kernel, key, references, num_draws))
        return positions.swapaxes(0, 1), num_tries.T

    def by_ticks():
        _, draws = collect(kernel, place_chains(key, references), num_draws)
        return draws.position, draws.num_tries

    # The first run of each compiles; its draws are compared.
    (positions, num_tries), (same, _) = by_lockstep(), by_ticks()
    # The arithmetic of batches of different sizes rounds differently, which at times decides on which side of a slice
    # a point lies.
    is_same = np.isclose(positions[:, :20], same[:, :20], atol=1e-2).all(axis=(1, 2))
    assert is_same.mean() > 0.99, "the two engines draw differently"
    times = [(seconds(by_lockstep)[0], seconds(by_ticks)[0]) for _ in range(num_repeats)]
    slow, fast = (statistics.median(column) for column in zip(*times, strict=True))
    print(
        f"{num_chains:>6} {num_draws:>6} {num_tries.mean():>9.2f} {num_tries.max(axis=0).mean():>12.2f} "
        f"{slow:>11.3f} {fast:>9.3f} {slow / fast:>7.2f}",
        flush=True,
    )


def main() -> None:
    print(f"Tick engine against lockstep: logistic regression, d = {DIM}, {NUM_ROWS} rows, affine map, float32")
    for name, signal in SIGNALS.items():
        kernel = make_kernel(signal)
        print(f"{name} signal")
        print("chains  draws     tries slowest of k lockstep, s  ticks, s   ratio")
        for num_chains in RUNS:
            compare(kernel, num_chains)


if __name__ == "__main__":
    main()
