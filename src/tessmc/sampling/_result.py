"""What a run gives back."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from flowjax.bijections import AbstractBijection

from tessmc.diagnostics import Convergence, Verdict, convergence, judge
from tessmc.storage import to_arviz

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Result:
    """Draws, and what is to be known about them.

    Attributes:
        posterior: name → draws (chain, draw, *shape), in the support; a bare array is named `"x"`.
        unconstrained: the draws as the sampler saw them, (chain, draw, dim).
        stats: name → values (chain, draw): `log_density` (of the unconstrained vector), `log_ratio` (its
            standard deviation is s, how far the map is from perfect), `num_evaluations`, `num_nan`, `is_stuck`.
        num_evaluations_by_phase: density evaluations of `"fit"`, `"warmup"`, `"check"` and `"sampling"`.
        transport: the map T that was learned, a FlowJAX bijection.
        warmup_history: what was measured in each epoch of the warm-up.
        timings: seconds of `compile`, `warmup`, `fit`, `sampling`, and `total`.
        troubles: what forbids to trust the draws, a sentence each; usually none.
        stride: transitions that were made for a draw; `num_evaluations` and `num_nan` count those of all.
        is_complete: all draws that were asked for are here.
    """

    posterior: dict[str, np.ndarray]
    unconstrained: np.ndarray
    stats: dict[str, np.ndarray]
    num_evaluations_by_phase: dict[str, int]
    transport: AbstractBijection = field(repr=False)
    warmup_history: list[dict[str, Any]] = field(repr=False)
    timings: dict[str, float]
    troubles: list[str]
    stride: int = 1
    is_complete: bool = True

    @property
    def num_evaluations(self) -> int:
        """Density evaluations in all, warm-up and fits included."""
        return sum(self.num_evaluations_by_phase.values())

    @cached_property
    def parameter_names(self) -> list[str]:
        """A name for every scalar in `posterior`, in the order of the summary."""
        return [
            name + (f"[{', '.join(map(str, index))}]" if index else "")
            for name, draws in self.posterior.items()
            for index in np.ndindex(draws.shape[2:])
        ]

    @cached_property
    def convergence(self) -> Convergence:
        """R-hat, bulk and tail ESS of every scalar parameter."""
        return convergence(self._columns)

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the draws may be used, and why."""
        moves = np.ptp(self._columns, axis=(0, 1)) > 0
        if np.ptp(self.unconstrained, axis=(0, 1)).min() > 0:
            # What is constant while every free coordinate moves is so by its support, as the zeros of a triangle.
            names = [name for name, is_moving in zip(self.parameter_names, moves, strict=True) if is_moving]
            found = Convergence(*(values[moves] for values in self.convergence))
        else:
            names, found = self.parameter_names, self.convergence
        return judge(names, found, self.unconstrained.shape[1], self.troubles)

    def summary(self) -> "Summary":
        """Mean, sd, quantiles, ESS and R-hat of every scalar parameter, and the verdict in words."""
        import pandas as pd

        columns = self._columns.reshape(-1, len(self.parameter_names))
        low, median, high = np.quantile(columns, [0.05, 0.5, 0.95], axis=0)
        table = pd.DataFrame(
            {
                "mean": columns.mean(0),
                "sd": columns.std(0, ddof=1),
                "5%": low,
                "50%": median,
                "95%": high,
                "ess_bulk": self.convergence.ess_bulk,
                "ess_tail": self.convergence.ess_tail,
                "r_hat": self.convergence.r_hat,
            },
            index=self.parameter_names,
        )
        return Summary(table, self.verdict, self._footer())

    def to_arviz(self) -> Any:
        """The draws in ArviZ's format, for its plots and statistics."""
        return to_arviz(self.posterior, self.stats)

    @property
    def _columns(self) -> np.ndarray:
        num_chains, num_draws = self.unconstrained.shape[:2]
        flat = [draws.reshape(num_chains, num_draws, -1) for draws in self.posterior.values()]
        return np.concatenate(flat, axis=-1).astype(float)

    def _footer(self) -> str:
        num_chains, num_draws = self.unconstrained.shape[:2]
        evaluations = self.stats["num_evaluations"].mean()
        transitions = f" of {self.stride} transitions" if self.stride > 1 else ""
        return (
            f"{num_chains} chains × {num_draws} draws{transitions}, {evaluations:.2f} density evaluations a draw, "
            f"s = {self.stats['log_ratio'].std():.2f}, {self.timings['total']:.1f} s"
        )


@dataclass(frozen=True)
class Summary:
    """A table to print, with the verdict below it; `table` is a pandas DataFrame."""

    table: "pd.DataFrame"
    verdict: Verdict
    footer: str

    def __str__(self) -> str:
        formats = {"ess_bulk": "{:.0f}".format, "ess_tail": "{:.0f}".format, "r_hat": "{:.3f}".format}
        numbers = {name: "{:.4g}".format for name in self.table.columns if name not in formats}
        return f"{self.table.to_string(formatters={**numbers, **formats})}\n{self.footer}\n{self.verdict}"

    def _repr_html_(self) -> str:
        return f"{self.table.to_html(float_format='{:.4g}'.format)}<p>{self.footer}<br>{self.verdict}</p>"
