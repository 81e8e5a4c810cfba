"""What a map makes of draws that it has not seen."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from tessmc.adaptation._buffer import Drawn, from_values, held_out_loss, mix
from tessmc.adaptation._fit import Decay, begin_fit, fit
from tessmc.kernels import StudentT
from tessmc.transports import ladder_map, spread_of, with_spread

DIM = 10


def of_funnel(rng, num):
    """Exact draws of Neal's funnel."""
    log_scale, noise = 1.5 * rng.normal(size=num), rng.normal(size=(num, DIM - 1))
    positions = np.c_[log_scale, np.exp(log_scale)[:, None] * noise].astype(np.float32)
    return Drawn(positions, -((log_scale / 1.5) ** 2) / 2 - (DIM - 1) * log_scale - np.sum(noise**2, axis=1) / 2)


def test_what_is_learned_of_a_funnel_holds_for_other_draws():
    rng = np.random.default_rng(0)
    train, held = of_funnel(rng, 6000), of_funnel(rng, 1500)
    ladder = ladder_map(jr.key(0), DIM, np.dtype("float32"))
    ladder = with_spread(ladder, spread_of(train.positions, 3))
    train, held = (mix(drawn, drawn, 8192, StudentT(0)) for drawn in (train, held))
    state = fit(
        from_values,
        begin_fit(ladder),
        jr.key(1),
        train,
        Decay(5e-3, 0.1, 800),
        jnp.int32(800),
        max_norm=jnp.float32(10),
    )
    # The loss of the exact map is log 1.5.
    assert held_out_loss(state.transport, held) < np.log(1.5) + 0.5
