"""FILE.py:NAME as a target: everything that `tessmc.sample` takes."""

import sys

import pytest

import tessmc
from tessmc.cli._target import executor_of, find_target


def test_a_log_density_with_what_stands_beside_it(file_of):
    text = "like = {'a': 1.0}\nsupport = {'a': None}\ndef f(p):\n    return -p['a'] ** 2\n"
    path = file_of(text)
    found, options = find_target(f"{path}:f")
    assert callable(found)
    assert options == {"like": {"a": 1.0}, "support": {"a": None}}
    path = file_of(text)
    assert find_target(f"{path}:f", like=4)[1]["like"] == 4
    assert find_target(f"{file_of('def f(x): return -x')}:f", last_resort=lambda: 3)[1]["like"] == 3


def test_targets_and_black_boxes_are_taken_as_they_are(file_of):
    path = file_of("import tessmc\nbox = tessmc.BlackBox(lambda x: 0.0, 2)\ntarget = tessmc.models.banana()\n")
    assert isinstance(find_target(f"{path}:box")[0], tessmc.BlackBox)
    assert isinstance(find_target(f"{path}:target")[0], tessmc.Target)


@pytest.mark.usefixtures("ranks_promoted")
def test_numpyro_models(file_of):
    text = """
import numpyro, numpyro.distributions as dist, tessmc

def model():
    numpyro.sample("mu", dist.Normal(0.0, 1.0))

def regression(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

posterior = tessmc.from_numpyro(regression, 0.5)
"""
    path = file_of(text)
    for name in ("model", "posterior"):
        found, options = find_target(f"{path}:{name}")
        assert isinstance(found, tessmc.targets.NumpyroTarget)
        assert options == {}
    with pytest.raises(Exception, match=r"tessmc.from_numpyro\(regression, ...\)"):
        find_target(f"{path}:regression")


@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
def test_a_pymc_model(file_of):
    path = file_of("import pymc\nwith pymc.Model() as model:\n    pymc.Normal('mu')\n")
    found, options = find_target(f"{path}:model")
    assert isinstance(found, tessmc.targets.PymcTarget)
    assert options == {}


def test_a_file_finds_its_neighbours(file_of, tmp_path):
    (tmp_path / "neighbour_of_a_model.py").write_text("scale = 2.0\n")
    path = file_of("from neighbour_of_a_model import scale\ndef f(x):\n    return -scale * x[0] ** 2\n")
    assert find_target(f"{path}:f", like=1)[0]([1.0]) == -2.0
    assert path.stem in sys.modules


def test_executors():
    with executor_of(None) as nobody:
        assert nobody is None
    with executor_of("threads") as threads:
        assert threads.submit(int, "3").result() == 3
    with executor_of("processes:3") as processes:
        assert processes._max_workers == 3
        assert processes._mp_context.get_start_method() == "spawn"
