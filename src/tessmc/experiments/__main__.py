"""One run in a process of its own: `python -m tessmc.experiments JSON`, of a `Job` and when it began."""

import json
import sys

from tessmc.experiments._measure import Job, run

*asked, began = json.loads(sys.argv[1])
try:
    row = run(Job(*asked), began)
except ModuleNotFoundError as error:
    sys.exit(f'{error}: pip install "tessmc[bench,poco]"')
sys.stdout.write(json.dumps(row) + "\n")
