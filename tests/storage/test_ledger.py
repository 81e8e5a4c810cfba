"""Values that were paid for are known again, as long as a run may need them; what is damaged is not believed."""

import numpy as np
import pytest

from tessmc.storage import RunFolder
from tessmc.storage._ledger import NAME, NAME_BEFORE

KEYS = [np.float32([count, 1]).tobytes() for count in range(20)]


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)


def fill(folder, keys):
    ledger = folder.ledger()
    for key in keys:
        ledger.put(key, float(KEYS.index(key)))
    folder.release()


def known(folder):
    another = RunFolder(folder.path)
    found = [another.ledger().get(key) for key in KEYS]
    another.release()
    return [value for value in found if value is not None]


def test_values_are_known_to_the_next_process(folder):
    fill(folder, KEYS[:10])
    assert known(folder) == list(range(10))
    fill(folder, KEYS[10:])
    assert known(folder) == list(range(20))


def test_infinity_and_nan_are_values(folder):
    ledger = folder.ledger()
    ledger.put(KEYS[0], -np.inf)
    ledger.put(KEYS[1], np.nan)
    folder.release()
    assert np.isneginf(known(folder)[0])
    assert np.isnan(known(folder)[1])


def test_values_of_the_last_state_but_one_are_forgotten(folder):
    ledger = folder.ledger()
    for turn, keys in enumerate([KEYS[:5], KEYS[5:10], KEYS[10:15]]):
        for key in keys:
            ledger.put(key, float(KEYS.index(key)))
        if turn < 2:
            folder.turn_ledger()
    folder.release()
    assert known(folder) == list(range(5, 15))


def test_what_is_used_again_stays(folder):
    fill(folder, KEYS[:5])
    # A run that stops at the same place again and again, and writes its last state each time.
    for _ in range(3):
        assert [folder.ledger().get(key) for key in KEYS[:5]] == list(range(5))
        folder.turn_ledger()
        folder.release()
    assert known(folder) == list(range(5))


def test_nothing_is_forgotten_when_no_state_can_be_written(folder):
    fill(folder, KEYS[:5])
    folder.ledger()
    folder.trouble = "the disk is full"
    folder.turn_ledger()
    folder.turn_ledger()
    folder.release()
    assert known(folder) == list(range(5))


@pytest.mark.parametrize("cut", range(1, 28, 3))
def test_half_a_record_is_written_over(folder, cut):
    fill(folder, KEYS[:10])
    path = folder.path / NAME
    path.write_bytes(path.read_bytes()[:-cut])
    assert known(folder) == list(range(9))
    fill(folder, KEYS[9:])
    assert known(folder) == list(range(20))


def test_a_flipped_bit_is_noticed(folder):
    fill(folder, KEYS)
    path = folder.path / NAME
    content = path.read_bytes()
    for place in range(0, len(content), 5):
        damaged = bytearray(content)
        damaged[place] ^= 4
        path.write_bytes(damaged)
        assert known(folder) == list(range(place // 28))


def test_the_file_before_may_be_damaged(folder):
    fill(folder, KEYS)
    (folder.path / NAME).rename(folder.path / NAME_BEFORE)
    (folder.path / NAME).write_bytes(b"x" * 100)
    assert known(folder) == list(range(20))
