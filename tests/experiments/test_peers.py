"""Every peer draws from the target, says what it paid, and goes on where it was."""

import pytest

from helpers import check_peer
from tessmc.experiments import SAMPLERS

# They take minutes, or packages that a developer need not have; `make verify` runs them.
HEAVY = ("laps", "nutpie", "zeus", "pocomc")


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name not in HEAVY])
def test_a_peer_draws_from_the_target(name):
    check_peer(name)
