"""The command line: parse, call, print. JAX is imported by the commands, so that help comes at once."""

from tessmc.cli import _bench, _check, _demo, _info, _report, _sample
from tessmc.cli._app import app

__all__ = ["app"]

# In the order in which help lists them.
for _part in (_demo, _sample, _report, _check, _bench, _info):
    _part.add_to(app)
