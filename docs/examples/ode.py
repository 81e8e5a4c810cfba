"""A drug taken at hour 0, absorbed at one rate, cleared at another."""

import numpy as np
from numpyro.distributions import constraints
from scipy.integrate import odeint

import tessmc

hours = np.array([0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0])
seen = np.array([0.31, 0.49, 0.63, 0.66, 0.60, 0.51, 0.40, 0.22, 0.14, 0.04])


def slope(amounts, _, absorbed, cleared):
    gut, blood = amounts
    return -absorbed * gut, absorbed * gut - cleared * blood


def log_density(p):
    rates = (p["absorbed"], p["cleared"])
    amounts = odeint(slope, (1.0, 0.0), np.r_[0.0, hours], args=rates)
    residual = (seen - amounts[1:, 1]) / p["noise"]
    log_prior = -p["absorbed"] - p["cleared"] - 10 * p["noise"]
    return log_prior - 0.5 * residual @ residual - len(seen) * np.log(p["noise"])


box = tessmc.BlackBox(
    log_density,
    like={"absorbed": 1.0, "cleared": 1.0, "noise": 1.0},
    support=constraints.positive,
    timeout=10.0,  # seconds that a solution may take
    on_error="reject",  # impossible, where the solver gives up
)
if __name__ == "__main__":
    result = tessmc.sample(box, num_chains=32, num_samples=100)
    print(result.summary())
    print(result.num_evaluations_by_phase)
