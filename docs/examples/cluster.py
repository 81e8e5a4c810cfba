"""A density that takes its time, asked by the workers of a Dask cluster."""

import time

import numpy as np
from dask.distributed import Client, LocalCluster

import tessmc


def log_density(x):
    time.sleep(0.001)  # a simulation
    return -0.5 * np.sum((x - 3) ** 2 / 4)


if __name__ == "__main__":
    # On a real cluster: Client("tcp://scheduler:8786").
    here = {"host": "127.0.0.1", "dashboard_address": None}
    with LocalCluster(2, threads_per_worker=1, **here) as cluster, Client(cluster) as client:
        result = tessmc.sample(
            tessmc.BlackBox(log_density, like=np.zeros(3)),
            executor=client.get_executor(),
            num_chains=32,
            run_dir="runs/cluster",
        )
    print(result.summary())
