"""The host engine makes the draws of the compiled one, and asks for each value once."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from flowjax.bijections import Affine
from numpyro.distributions import constraints

from helpers import Sinh, WithoutLogDet, shaken
from tessmc import BlackBox, Target
from tessmc.engines import Journal, Stopped, collect, count_evaluations, march, place_chains
from tessmc.engines._host import advance_on_host
from tessmc.kernels import StudentT, TransportEllipticalSlice
from tessmc.transports import paper_coupling

KEY = jr.key(42)


def log_density(x):
    return -jnp.sum(x**4) / 4


def asked(log_density, dim, seen=None):
    """A density of JAX as a black box, which writes down where it is asked."""
    compiled = jax.jit(log_density)

    def fn(x):
        if seen is not None:
            seen.append(x.tobytes())
        return float(compiled(x.astype(np.float32)))

    return BlackBox(fn, dim)


MAPS = {
    "elementwise": (Affine(jnp.full(3, 0.3), jnp.full(3, 1.7)), {}),
    "a fresh try first": (Affine(jnp.full(3, 0.3), jnp.full(3, 1.7)), {"first_try": jnp.array(True)}),
    "Student-t": (Affine(jnp.full(3, 0.3), jnp.full(3, 1.7)), {"law": StudentT(5)}),
    "general": (shaken(paper_coupling(jr.key(0), 3)), {}),
}


@pytest.mark.parametrize("name", MAPS)
def test_the_draws_are_those_of_the_compiled_engine(name):
    transport, options = MAPS[name]
    references = jr.normal(jr.key(1), (16, 3))
    kernels = [
        TransportEllipticalSlice(target.log_density, transport, **options)
        for target in (Target(log_density, 3), asked(log_density, 3))
    ]
    found = [collect(kernel, place_chains(KEY, references), 20) for kernel in kernels]
    (there, drawn_there), (here, drawn_here) = found
    assert np.array_equal(drawn_there.num_tries, drawn_here.num_tries)
    assert np.allclose(drawn_there.position, drawn_here.position, atol=2e-4)
    assert np.allclose(drawn_there.log_ratio, drawn_here.log_ratio, atol=2e-3)
    assert count_evaluations(there) == count_evaluations(here)


def test_a_support_counts_as_it_does_for_compiled_targets():
    transport, references = Affine(jnp.zeros(2), jnp.ones(2)), jr.normal(jr.key(1), (16, 2))
    with jax.numpy_rank_promotion("allow"):
        targets = [
            Target(lambda x: -jnp.sum(x), 2, support=constraints.positive),
            BlackBox(lambda x: -np.sum(x), 2, support=constraints.positive),
        ]
        kernels = [TransportEllipticalSlice(target.log_density, transport) for target in targets]
        there, here = (collect(kernel, place_chains(KEY, references), 20)[1] for kernel in kernels)
    assert np.allclose(there.position, here.position, atol=2e-4)
    assert np.allclose(there.log_density, here.log_density, atol=2e-3)


def test_each_value_is_asked_for_once():
    seen = []
    box = asked(log_density, 3, seen)
    kernel = TransportEllipticalSlice(box.log_density, Affine(jnp.zeros(3), jnp.ones(3)))
    chains, draws = collect(kernel, place_chains(KEY, jr.normal(jr.key(1), (16, 3))), 20)
    assert len(seen) == len(set(seen)) == count_evaluations(chains) == 16 + draws.num_tries.sum()
    # A second march does not ask again where the chains stand.
    before = len(seen)
    _, draws = collect(kernel, chains, 5)
    assert len(seen) - before == draws.num_tries.sum()


def test_what_is_drawn_does_not_depend_on_the_rounds_of_a_chunk():
    box = asked(log_density, 3)
    kernel = TransportEllipticalSlice(box.log_density, Affine(jnp.zeros(3), jnp.ones(3)))
    chains = place_chains(KEY, jr.normal(jr.key(1), (16, 3)))
    whole, _ = collect(kernel, chains, 10)
    while int(chains.iteration.min()) < 10:
        chains, _, stop = advance_on_host(kernel, box, chains, 10, 1)
        assert stop is None
    assert np.array_equal(whole.state.position, chains.state.position)


@pytest.mark.parametrize("limit", [1, 16, 17, 40, 100])
def test_a_limit_of_evaluations_is_kept_exactly_and_then_lifted(limit):
    seen = []
    box = asked(log_density, 3, seen)
    kernel = TransportEllipticalSlice(box.log_density, Affine(jnp.zeros(3), jnp.ones(3)))
    chains = place_chains(KEY, jr.normal(jr.key(1), (16, 3)))
    whole, _ = collect(kernel, chains, 10)
    seen.clear()
    kept = [chains]
    with pytest.raises(Stopped, match=f"max_evaluations={limit} are spent"):
        march(kernel, chains, 10, hear=lambda chains, _: kept.append(chains), journal=Journal(limit=limit))
    assert len(seen) == count_evaluations(kept[-1]) == limit
    assert np.array_equal(march(kernel, kept[-1], 10).state.position, whole.state.position)


def test_a_limit_of_evaluations_is_kept_by_the_compiled_engine():
    kernel = TransportEllipticalSlice(log_density, Affine(jnp.zeros(3), jnp.ones(3)))
    kept = []
    with pytest.raises(Stopped, match="max_evaluations=100 are spent"):
        march(
            kernel,
            place_chains(KEY, jr.normal(jr.key(1), (16, 3))),
            10,
            hear=lambda chains, _: kept.append(chains),
            journal=Journal(limit=100),
        )
    assert 100 - 16 < count_evaluations(kept[-1]) <= 100


def z_of_second_moment(transport):
    """Of E[x²] = 1 for chains begun in exact N(0, 1) draws; N(0, 1) if π is invariant."""
    box = BlackBox(lambda x: -0.5 * np.sum(x**2, axis=1), 1, vectorized=True, batch_size=4096)
    kernel = TransportEllipticalSlice(box.log_density, transport)
    references = jax.vmap(transport.inverse)(jr.normal(jr.key(3), (4096, 1)))
    chains = march(kernel, place_chains(KEY, references), 3)
    squares = np.asarray(chains.state.position).ravel() ** 2
    return (squares.mean() - 1) / np.sqrt(2 / len(squares))


def test_the_target_is_invariant():  # Proposition 1
    assert abs(z_of_second_moment(Sinh((1,)))) < 4


def test_a_forgotten_log_det_is_noticed():  # the twin: the test above is able to fail
    assert abs(z_of_second_moment(WithoutLogDet(Sinh((1,)), (1,)))) > 8
