"""What a run gives back."""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from flowjax.bijections import AbstractBijection
from flowjax.distributions import Transformed

from tessmc._arrays import in_precision_of
from tessmc.diagnostics import APART, Convergence, Verdict, convergence, groups_apart, judge, nested_r_hat
from tessmc.kernels import AbstractLaw
from tessmc.sampling._flow import pushed
from tessmc.storage import Groups, Stored, to_arviz
from tessmc.targets import AbstractTarget, Labels

if TYPE_CHECKING:
    import pandas as pd

# Draws of all chains that are judged and summarised; of more, every so manieth.
MAX_JUDGED = 2**18
# Groups of chains for nested R-hat.
NUM_GROUPS = 8
# Numbers that are judged at a time.
BLOCK = 2**20


@dataclass(frozen=True)
class Result:
    """Draws, and what is to be known about them.

    Attributes:
        groups: all draws by group and name. With a run folder they are read from there whenever they are asked for.
        num_chains: of the draws.
        num_draws: of every chain.
        num_evaluations_by_phase: density evaluations of `"fit"`, `"warmup"`, `"check"` and `"sampling"`.
        transport: the map T that was learned, a FlowJAX bijection; None if the run was stopped before.
        law: φ, the law of its reference space: N(0, I), or a Student-t; None likewise.
        warmup_history: what was measured in each epoch of the warm-up.
        timings: seconds of `compile`, `warmup`, `fit`, `sampling`, and `total`.
        troubles: what forbids to trust the draws, a sentence each; usually none.
        notes: what else is to be known, such as calls of a black box that were rejected.
        stride: transitions that were made for a draw; `num_evaluations` and `num_nan` count those of all.
        is_complete: all draws that were asked for are here.
        reason: why the run ended where it did, if not because all draws were made.
        run_dir: the folder of the run.
        settings: what was asked of `sample`, as a run folder has it.
    """

    groups: Groups = field(repr=False)
    num_chains: int
    num_draws: int
    num_evaluations_by_phase: dict[str, int]
    transport: AbstractBijection | None = field(repr=False)
    warmup_history: list[dict[str, Any]] = field(repr=False)
    timings: dict[str, float]
    troubles: list[str]
    notes: list[str] = field(default_factory=list)
    stride: int = 1
    is_complete: bool = True
    reason: str = ""
    run_dir: Path | None = None
    law: AbstractLaw | None = field(default=None, repr=False)
    settings: dict[str, Any] = field(default_factory=dict, repr=False)
    _target: AbstractTarget | None = field(default=None, repr=False)
    _extend: "Callable[[int], Result] | None" = field(default=None, repr=False)
    _save: "Callable[[Result, Path], None] | None" = field(default=None, repr=False)

    @property
    def posterior(self) -> Mapping[str, np.ndarray]:
        """Name → draws (chain, draw, *shape), in the support; a bare array is named `"x"`."""
        return self.groups["posterior"]

    @property
    def unconstrained(self) -> np.ndarray:
        """The draws as the sampler saw them, (chain, draw, dim)."""
        if "unconstrained_posterior" not in self.groups:
            raise ValueError("unconstrained draws were not kept, because `keep` named some parameters")
        return self.groups["unconstrained_posterior"]["x"]

    @property
    def stats(self) -> Mapping[str, np.ndarray]:
        """Name → values (chain, draw).

        `log_density` (of the unconstrained vector), `log_ratio` (its standard deviation is s, how far the map is from
        perfect), `num_evaluations`, `num_nan`, `is_stuck`.
        """
        return self.groups["sample_stats"]

    @property
    def num_evaluations(self) -> int:
        """Density evaluations in all, warm-up and fits included."""
        return sum(self.num_evaluations_by_phase.values())

    @property
    def num_parameters(self) -> int:
        """How many scalars there are in `posterior`."""
        return len(self.parameter_names)

    @cached_property
    def parameter_names(self) -> list[str]:
        """A name for every scalar in `posterior`, in the order of the summary."""
        return [
            name + (f"[{', '.join(map(str, index))}]" if index else "")
            for name in self.posterior
            for index in np.ndindex(shape_of(self.posterior, name))
        ]

    @cached_property
    def convergence(self) -> Convergence:
        """R-hat, bulk and tail ESS of every scalar parameter."""
        return Convergence(*(np.concatenate(parts) for parts in zip(*map(convergence, self._blocks()), strict=True)))

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the draws may be used, and why."""
        if self.num_draws == 0:
            return Verdict(False, ["there are no draws" + (f": {self.reason}" if self.reason else "")])
        moves = np.concatenate([np.ptp(block, axis=(0, 1)) > 0 for block in self._blocks()])
        names, found, nested = self.parameter_names, self.convergence, self._nested()
        free = [np.ptp(draws, axis=(0, 1)).min() > 0 for _, draws in self.few("unconstrained_posterior")]
        if all(free) and moves.any():
            # What is constant while every free coordinate moves is so by its support, as the zeros of a triangle.
            names = [name for name, is_moving in zip(self.parameter_names, moves, strict=True) if is_moving]
            found = Convergence(*(values[moves] for values in self.convergence))
            nested = None if nested is None else nested[moves]
        return judge(names, found, self.num_draws, self.troubles + self._modes(), nested)

    def _nested(self) -> np.ndarray | None:
        """R-hat of eight groups of chains, as many of them as make groups of one size."""
        size = self.num_chains // NUM_GROUPS
        if size < 2:
            return None
        blocks = (nested_r_hat(block[: size * NUM_GROUPS], NUM_GROUPS) for block in self._blocks())
        return np.nan_to_num(np.concatenate(list(blocks)), nan=np.inf)

    def _modes(self) -> list[str]:
        """Chains that stand apart, by the parameter that shows it best."""
        r_hat = np.nan_to_num(self.convergence.r_hat)
        worst = int(np.argmax(r_hat))
        if r_hat[worst] < APART:
            return []
        column = next(itertools.islice(itertools.chain.from_iterable(map(_columns, self._blocks())), worst, None))
        sentence = groups_apart(self.parameter_names[worst], column)
        return [] if sentence is None else [sentence]

    def summary(self) -> "Summary":
        """Mean, sd, quantiles, ESS and R-hat of every scalar parameter, and the verdict in words."""
        import pandas as pd

        if self.num_draws == 0:
            return Summary(pd.DataFrame(index=self.parameter_names), self.verdict, self._footer())
        rows = []
        for block in self._blocks():
            flat = block.reshape(-1, block.shape[2])
            rows.append(np.stack([flat.mean(0), flat.std(0, ddof=1), *np.quantile(flat, [0.05, 0.5, 0.95], axis=0)]))
        table = pd.DataFrame(
            {
                **dict(zip(("mean", "sd", "5%", "50%", "95%"), np.concatenate(rows, axis=1), strict=True)),
                "ess_bulk": self.convergence.ess_bulk,
                "ess_tail": self.convergence.ess_tail,
                "r_hat": self.convergence.r_hat,
            },
            index=self.parameter_names,
        )
        return Summary(table, self.verdict, self._footer())

    def flow(self) -> Transformed:
        """φ̂, the posterior as the map has it, in the unconstrained space: a FlowJAX distribution.

        `flow().sample(key, (1000,))` draws from it, `flow().log_prob(x)` is its log density.
        """
        if self.transport is None or self.law is None:
            raise ValueError(
                "there is no map: the run was stopped before it was learned, or was given one, which "
                "tessmc.load(..., transport=...) has to be given, too"
            )
        return pushed(self.law, self.transport)

    def extend(self, num_samples: int) -> "Result":
        """So many more draws of every chain, from where they stand: all draws, old and new."""
        if self._extend is None:
            raise ValueError(
                "a run that was loaded does not know its target; pass it to "
                "tessmc.resume(run_dir, target, num_samples=...)"
            )
        return self._extend(num_samples)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write one HTML file that tells all of this with pictures, opens offline and prints; where it is."""
        # `report` is built on this folder, so that it is found only when it is called.
        return import_module("tessmc.report").write_page(self, Path(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to a new folder, from which `tessmc.load` reads it and `tessmc.resume` goes on."""
        if self._save is None:
            raise ValueError("a run that was loaded is in its folder; copy that")
        self._save(self, Path(path))

    def to_arviz(
        self,
        *,
        coords: Mapping[str, Any] | None = None,
        dims: Mapping[str, list[str]] | None = None,
        log_likelihood: Callable[[Any], Any] | bool = True,
    ) -> Any:
        """The draws in ArviZ's format, for its plots and statistics.

        What a NumPyro or PyMC model knows is there too: coordinates and dimensions, data, log likelihoods.

        Args:
            coords: dimension → labels, as ArviZ has them.
            dims: parameter → names of its dimensions.
            log_likelihood: of a position, as the log density is given it, to the log likelihood of every observation;
                `az.loo` asks for it. By default that of a model; False leaves it out.
        """
        names = ("posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats")
        groups = {name: self.groups[name] for name in names if name in self.groups}
        labels = Labels({}, {}) if self._target is None else self._target.labels()
        if callable(log_likelihood):
            groups["log_likelihood"] = {"y": self._likelihoods(log_likelihood)}
        elif log_likelihood and self._target is not None and "unconstrained_posterior" in self.groups:
            found = self._for_every_draw(self._target.log_likelihood, self.unconstrained)
            groups |= {"log_likelihood": found} if found else {}
        groups |= {} if self._target is None else self._target.data_groups()
        attributes = {
            "inference_library": "tessmc",
            "inference_library_version": version("tessmc"),
            "sampling_time": f"{self.timings['total']:.3f}",
            "num_evaluations": str(self.num_evaluations),
            "verdict": str(self.verdict),
        }
        return to_arviz(groups, {**labels.coords, **(coords or {})}, {**labels.dims, **(dims or {})}, attributes)

    def _likelihoods(self, log_likelihood: Callable[[Any], Any]) -> np.ndarray:
        """Of every draw; a bare array is given as such, others by name."""
        draws = dict(self.posterior.items())
        return self._for_every_draw(log_likelihood, draws["x"] if list(draws) == ["x"] else draws)

    def _for_every_draw(self, function: Callable[[Any], Any], draws: Any) -> Any:
        """What a JAX function of one draw makes of all, (chain, draw, ...)."""
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), draws)
        with in_precision_of(np.result_type(*jax.tree.leaves(draws))):
            found = jax.jit(lambda points: jax.lax.map(function, points, batch_size=256))(flat)
            return jax.tree.map(
                lambda leaf: np.asarray(leaf).reshape(self.num_chains, self.num_draws, *leaf.shape[1:]), found
            )

    def few(self, group: str) -> Iterator[tuple[str, np.ndarray]]:
        """Arrays of a group by name, (chain, draw, *shape); of very many draws every so manieth."""
        return some_of(self.groups.get(group, {}), self.num_chains * self.num_draws)

    def _blocks(self) -> Iterator[np.ndarray]:
        """Parameters, a few columns at a time: (chain, draw, column)."""
        for _, draws in self.few("posterior"):
            columns = draws.reshape(*draws.shape[:2], -1)
            size = max(1, BLOCK // (self.num_chains * max(1, draws.shape[1])))
            for start in range(0, columns.shape[2], size):
                yield columns[..., start : start + size].astype(float)

    def _footer(self) -> str:
        transitions = f" of {self.stride} transitions" if self.stride > 1 else ""
        made = f"{self.num_chains} chains × {self.num_draws} draws{transitions}"
        ended = f"\n{'Complete' if self.is_complete else 'Incomplete'}: {self.reason}" if self.reason else ""
        ended += "".join(f"\nNote: {note}" for note in self.notes)
        if self.num_draws == 0:
            return made + ended
        few = dict(self.few("sample_stats"))
        return (
            f"{made}, {few['num_evaluations'].mean():.2f} density evaluations a draw, "
            f"s = {few['log_ratio'].std():.2f}, {self.timings['total']:.1f} s{ended}"
        )


def _columns(block: np.ndarray) -> Iterator[np.ndarray]:
    yield from np.moveaxis(block, 2, 0)


def some_of(
    group: Mapping[str, np.ndarray], num_draws: int, most: int = MAX_JUDGED
) -> Iterator[tuple[str, np.ndarray]]:
    """Arrays of a group by name; of very many draws, those of all chains counted, every so manieth."""
    step = max(1, -(-num_draws // most))
    for name in group:
        yield name, group.every(name, step) if isinstance(group, Stored) else group[name][:, ::step]


def shape_of(group: Mapping[str, np.ndarray], name: str) -> tuple[int, ...]:
    """The shape of one draw."""
    return group.shape_of(name) if isinstance(group, Stored) else group[name].shape[2:]


@dataclass(frozen=True)
class Summary:
    """A table to print, with the verdict below it; `table` is a pandas DataFrame."""

    table: "pd.DataFrame"
    verdict: Verdict
    footer: str

    def __str__(self) -> str:
        formats = {"ess_bulk": "{:.0f}".format, "ess_tail": "{:.0f}".format, "r_hat": "{:.3f}".format}
        numbers = {name: "{:.4g}".format for name in self.table.columns if name not in formats}
        table = "" if self.table.empty else f"{self.table.to_string(formatters={**numbers, **formats})}\n"
        return f"{table}{self.footer}\n{self.verdict}"

    def _repr_html_(self) -> str:
        return f"{self.table.to_html(float_format='{:.4g}'.format)}<p>{self.footer}<br>{self.verdict}</p>"
