"""The peers that take minutes, or packages that developers need not have; `make verify` installs those."""

import pytest

from helpers import check_peer


@pytest.mark.parametrize("name", ["laps", "nutpie", "zeus", "pocomc"])
def test_a_peer_draws_from_the_target(name):
    check_peer(name)
