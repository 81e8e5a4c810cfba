"""The one file that knows ArviZ's versions."""

from typing import Any

import numpy as np

from tessmc.diagnostics import import_arviz


def to_arviz(posterior: dict[str, np.ndarray], stats: dict[str, np.ndarray]) -> Any:
    """Draws in ArviZ's format: `InferenceData` before ArviZ 1.0, `xarray.DataTree` from then on."""
    arviz = import_arviz()
    groups = {"posterior": posterior, "sample_stats": stats}
    if int(arviz.__version__.split(".")[0]) >= 1:
        return arviz.from_dict(groups)
    return arviz.from_dict(**groups)
