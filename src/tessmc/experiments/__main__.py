"""One run in a process of its own: `python -m tessmc.experiments MODEL SAMPLER SEED BUDGET SECONDS BEGAN`."""

import json
import sys

from tessmc.experiments._measure import run

name, sampler, seed, budget, limit, began = sys.argv[1:]
try:
    row = run(name, sampler, int(seed), budget, float(limit), float(began))
except ModuleNotFoundError as error:
    sys.exit(f'{error}: pip install "tessmc[bench]"')
sys.stdout.write(json.dumps(row) + "\n")
