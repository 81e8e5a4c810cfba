"""Every map in the family list: round trip, log-determinant, far out in the tails too."""

import jax
import jax.numpy as jnp
import jax.random as jr
import pytest
from flowjax.bijections import Chain, Loc, Scale

from helpers import TRANSPORTS, all_transports
from tessmc.transports import paper_coupling
from tessmc.transports._coupling import in_turn


def tolerance(dtype):
    return 2e-3 if dtype == jnp.float32 else 1e-9


def points(transport, radius, dtype):
    return radius * jr.normal(jr.key(3), (16, *transport.shape), dtype)


@pytest.mark.parametrize("name", TRANSPORTS)
def test_pull_undoes_push(name, dtype):
    """As far as the map lets it: an error of rounding in x grows by |∇T⁻¹| on the way back."""
    transport = all_transports()[name]

    @jax.jit
    @jax.vmap
    def there_and_back(reference):
        position = transport.transform(reference)
        back, log_pull = transport.inverse_and_log_det(position)
        _, log_push = transport.transform_and_log_det(back)
        growth = jnp.abs(jax.jacobian(transport.inverse)(position)) @ jnp.abs(position)
        return position, jnp.abs(back - reference) / (jnp.abs(reference) + growth), log_push, log_pull

    # sinh overflows float32 at 89.
    for radius in (1.0, 10.0, 20.0 if name == "sinh" else 1000.0):
        positions, errors, log_push, log_pull = there_and_back(points(transport, radius, dtype))
        assert jnp.all(jnp.isfinite(positions))
        assert jnp.max(errors) < 100 * jnp.finfo(dtype).eps
        assert jnp.allclose(log_push, -log_pull, rtol=tolerance(dtype), atol=tolerance(dtype) * 10)


@pytest.mark.parametrize("name", TRANSPORTS)
def test_log_det_is_that_of_the_jacobian(name, dtype):
    transport = all_transports()[name]

    @jax.jit
    @jax.vmap
    def log_dets(reference):
        jacobian = jax.jacobian(transport.transform)(reference)
        return transport.transform_and_log_det(reference)[1], jnp.linalg.slogdet(jacobian)[1]

    for radius in (1.0, 8.0):
        found, expected = log_dets(points(transport, radius, dtype))
        assert jnp.allclose(found, expected, rtol=tolerance(dtype), atol=tolerance(dtype))


@pytest.mark.parametrize("dim", [1, 2, 3, 51])
def test_the_paper_map_starts_at_the_identity(dim):
    transport = paper_coupling(jr.key(0), dim)
    reference = jr.normal(jr.key(1), (dim,))
    position, log_det = transport.transform_and_log_det(reference)
    assert jnp.array_equal(position, reference)
    assert log_det == 0


def test_the_paper_map_has_the_layers_of_section_2_5():
    transport = paper_coupling(jr.key(0), 6, num_layers=3)
    assert [layer.moves_first for layer in transport.bijection] == [True, False]  # G, then D
    for layer in transport.bijection:
        # The parameters of G₁, G₂ and G₃ are stacked, and so are those of the Ds.
        assert [linear.weight.shape for linear in layer.network.layers] == [(3, 6, 3), (3, 6, 6), (3, 6, 6)]


def test_layers_are_passed_in_their_order():
    def layer(shift, scale):
        return Chain([Loc(jnp.full(2, shift)), Scale(jnp.full(2, scale))])

    assert jnp.allclose(in_turn([layer(1.0, 3.0), layer(5.0, 2.0)]).transform(jnp.zeros(2)), ((0 + 1) * 3 + 5) * 2)


def test_every_coordinate_can_be_moved():
    references = jr.normal(jr.key(2), (8, 5))
    moved = jax.jit(jax.vmap(all_transports()["coupling_5d"].transform))(references)
    assert jnp.all(jnp.mean(jnp.abs(moved - references), axis=0) > 1e-2)


@pytest.mark.parametrize("name", ["sinh", "tails", "ladder_3d", "coupling_2d", "coupling_5d", "coupling_8d_wide"])
def test_maps_are_curved_enough_to_show_a_forgotten_log_det(name):
    transport = all_transports()[name]
    log_dets = jax.jit(jax.vmap(transport.transform_and_log_det))(points(transport, 1, jnp.float32))[1]
    assert jnp.std(log_dets) > 0.2


def test_the_scale_cannot_overflow():
    transport = all_transports()["coupling_2d"]
    position, log_det = transport.transform_and_log_det(jnp.array([1e30, -1e30], jnp.float32))
    assert jnp.all(jnp.isfinite(position))
    assert abs(log_det) <= 4 * 3.0


@pytest.mark.parametrize(("dim", "num_layers"), [(0, 2), (2, 0)])
def test_an_empty_map_is_refused(dim, num_layers):
    with pytest.raises(ValueError, match="at least 1"):
        paper_coupling(jr.key(0), dim, num_layers)


def test_other_keys_give_other_networks():
    first, second = (paper_coupling(jr.key(seed), 4).bijection[0].network.layers[0].weight for seed in (0, 1))
    assert not jnp.array_equal(first, second)
