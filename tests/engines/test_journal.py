"""A run that was stopped and goes on makes the very draws of one that was not."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from flowjax.bijections import Affine

from tessmc.engines import NO_JOURNAL, Journal, Stopped, collect, place_chains
from tessmc.engines import _march as march_module
from tessmc.kernels import TransportEllipticalSlice

KERNEL = TransportEllipticalSlice(lambda x: -jnp.sum(x**4), Affine(jnp.zeros(2), jnp.ones(2)))


class Remembered(Journal):
    """Notes in memory; every piece is due, and the run is stopped after so many."""

    keeps = True

    def __init__(self, notes, num_pieces=10**9):
        super().__init__(self._count_down)
        self.notes, self.left, self.num_pieces = notes, list(notes), num_pieces

    def recall(self, like):
        if not self.left:
            return None
        found = self.left.pop(0)
        assert jax.tree.structure(found) == jax.tree.structure(like)
        return found

    def note(self, result):
        assert not self.left
        self.notes.append(result)

    def is_due(self):
        return True

    def _count_down(self):
        self.num_pieces -= 1
        if self.num_pieces < 0:
            raise Stopped("enough")


def draw(journal=NO_JOURNAL):
    chains = place_chains(jr.key(0), jr.normal(jr.key(1), (6, 2)))
    chains, first = collect(KERNEL, chains, 7, journal=journal)
    # Decided on the way, from what was drawn.
    num_draws = 5 + int(first.position.sum() > 0)
    return collect(KERNEL, chains, num_draws, journal=journal)[1]


@pytest.mark.parametrize("num_pieces", [0, 1, 2, 5])
def test_the_same_draws_however_often_a_run_is_stopped(monkeypatch, num_pieces):
    monkeypatch.setattr(march_module, "MAX_TICKS", 3)
    whole, notes, num_stops = draw(), [], 0
    while True:
        try:
            found = draw(Remembered(notes, num_pieces + num_stops % 2))
            break
        except Stopped:
            num_stops += 1
    assert num_stops >= (2 if num_pieces < 5 else 1)
    for one, other in zip(whole, found, strict=True):
        assert np.array_equal(one, other)


def test_steps_of_a_loop_are_not_repeated():
    notes, taken = [], []

    def count_to_six(journal):
        return journal.repeat(0, lambda count: count >= 6, lambda count: taken.append(count) or count + 1)

    with pytest.raises(Stopped):
        count_to_six(Remembered(notes, 4))
    assert count_to_six(Remembered(notes)) == 6
    assert taken == [0, 1, 2, 3, 4, 5]
    assert count_to_six(Remembered(notes, 0)) == 6
    assert count_to_six(Journal()) == 6


def test_work_is_done_once():
    notes = []
    assert Remembered(notes).once(0.0, lambda: 3.5) == 3.5
    assert Remembered(notes).once(0.0, lambda: 4.5) == 3.5
    assert Journal().once(0.0, lambda: 4.5) == 4.5
