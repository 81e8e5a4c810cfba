"""The peers whose packages are not among those of developers; `make verify` installs them."""

import pytest

from helpers import check_peer


@pytest.mark.parametrize("name", ["nutpie", "zeus"])
def test_a_peer_draws_from_the_target(name):
    check_peer(name)
