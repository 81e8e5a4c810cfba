"""Where data sets come from: a given folder, the cache, their source; and what is said if from nowhere."""

import hashlib

import numpy as np
import pooch
import pytest

from tessmc.models import _data, predator_prey, regime_switching, sparse_logistic

RAW = "Open,dl_ac\n620.0,0.0024\n592.0,-0.029\n"
TABLE = "return\n0.0024\n-0.029\n"
NAME = "google_returns.csv"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, no folder of data, and a source that holds another table than the true one."""
    folder = tmp_path / "cache"
    monkeypatch.delenv("TESSMC_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda _: folder)
    known = hashlib.sha256(TABLE.encode()).hexdigest()
    monkeypatch.setitem(_data.SOURCES, NAME, _data.SOURCES[NAME]._replace(sha256=known))
    return folder


@pytest.fixture
def source(monkeypatch):
    """What the network would answer, and a list of what it was asked for."""
    asked = []

    def retrieve(url, known_hash, fname, path):
        del known_hash
        asked.append(url)
        path.mkdir(parents=True, exist_ok=True)
        (path / fname).write_text(RAW)
        return str(path / fname)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    return asked


def test_a_table_is_fetched_once(cache, source):
    for _ in range(2):
        assert np.array_equal(_data.read_table(NAME), [[0.0024], [-0.029]])
    assert source == [_data.SOURCES[NAME].url]
    assert [path.name for path in cache.iterdir()] == [NAME]


def test_a_given_folder_comes_first(cache, source, tmp_path, monkeypatch):
    _data.read_table(NAME)
    (tmp_path / NAME).write_text("return\n7\n")
    monkeypatch.setenv("TESSMC_DATA", str(tmp_path))
    assert _data.read_table(NAME) == 7
    assert len(source) == 1
    assert (cache / NAME).is_file()


def test_a_table_that_is_another_is_not_kept(cache, source, monkeypatch):
    monkeypatch.setitem(_data.SOURCES, NAME, _data.SOURCES[NAME]._replace(sha256="0" * 64))
    with pytest.raises(FileNotFoundError, match="its checksum differs"):
        _data.read_table(NAME)
    assert source
    assert not (cache / NAME).exists()


@pytest.mark.parametrize("make", [regime_switching, sparse_logistic, predator_prey])
def test_without_a_network_it_says_which_file_to_put_where(make, cache, monkeypatch):
    def retrieve(*_, **__):
        raise ConnectionError("no route to host")

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    with pytest.raises(FileNotFoundError, match=r"\.csv is neither in TESSMC_DATA \(not set\) nor in") as caught:
        make()
    assert str(cache) in str(caught.value)
    assert "(ConnectionError); put it into a folder" in str(caught.value)
    assert "name that folder in TESSMC_DATA" in str(caught.value)


def test_the_short_series_needs_no_file(cache):
    assert predator_prey("1900_1920").data[0].shape == (21, 2)
    assert not cache.exists()


@pytest.mark.parametrize(
    ("name", "text", "last"),
    [
        ("german_credit_numeric.csv", "   1 6  4 2 \n   2  48 2 1 \n\n", "2,48,2,1"),
        (NAME, RAW, "-0.029"),
        ("lynx_hare_1845_1935.csv", "Year,Hare,Lynx\n1845,19.58,30.09\n1846,19.6,45\n", "1846,19.60,45.00"),
    ],
)
def test_sources_become_tables(name, text, last, monkeypatch):
    written = []
    monkeypatch.setattr(hashlib, "sha256", lambda content: written.append(content.decode()) or Same(name))
    lines = _data.as_table(name, text).splitlines()
    assert written == ["\n".join(lines) + "\n"]
    assert (len(lines), lines[-1]) == (3, last)


class Same:
    """A checksum that is as expected."""

    def __init__(self, name):
        self.name = name

    def hexdigest(self):
        return _data.SOURCES[self.name].sha256


def test_a_table_names_its_columns(monkeypatch):
    monkeypatch.setattr(hashlib, "sha256", lambda _: Same("german_credit_numeric.csv"))
    header = _data.as_table("german_credit_numeric.csv", "1 2\n").splitlines()[0].split(",")
    assert (len(header), header[0], header[-1]) == (25, "x01", "label")
