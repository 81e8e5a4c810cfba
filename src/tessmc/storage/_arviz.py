"""The one file that knows ArviZ's versions."""

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from tessmc.diagnostics import import_arviz


def to_arviz(
    groups: Mapping[str, Mapping[str, np.ndarray]],
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, list[str]] | None = None,
    attributes: Mapping[str, str] | None = None,
) -> Any:
    """Draws in ArviZ's format: `InferenceData` before ArviZ 1.0, `xarray.DataTree` from then on.

    Args:
        groups: group → name → values (chain, draw, ...).
        coords: dimension → labels.
        dims: name → dimensions after chain and draw.
        attributes: of every group.
    """
    arviz = import_arviz()
    # Plain arrays: what is on the disk is read here.
    whole = {group: dict(values.items()) for group, values in groups.items()}
    given = {"coords": dict(coords or {}), "dims": dict(dims or {})}
    with warnings.catch_warnings():
        # Many short chains are meant.
        warnings.filterwarnings("ignore", "More chains")
        found = _from_dict(arviz, whole, given)
    for group in whole:
        found[group].attrs.update(attributes or {})
    return found


def _from_dict(arviz: Any, whole: Any, given: Any) -> Any:
    if int(arviz.__version__.split(".")[0]) >= 1:
        return arviz.from_dict(whole, **given, save_warmup=True)
    found = arviz.from_dict(**whole, **given, save_warmup=True)
    # ArviZ's own refuses the format 3 of zarr, and advises this.
    found.to_zarr = partial(_to_zarr, found)
    return found


def _to_zarr(found: Any, store: Any) -> None:
    found.to_datatree().to_zarr(store)
