"""A Python callable: values only, asked in batches."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from tessmc._types import Point, Points, Scalar
from tessmc.targets._desk import BATCH_SIZE, Answers, Desk, rows
from tessmc.targets._form import Form, FormedTarget
from tessmc.targets._target import in_words


class BlackBox(FormedTarget):
    """A log density that is not JAX: a NumPy function, a simulator, a program behind Python.

    It is asked from outside of all compiled code, only where a value is needed and once at each point; no gradient is
    asked for. Workers of an executor may do it (`executor` of `tessmc.sample`).

    Args:
        fn: log π up to a constant, of a position like `like`, in NumPy arrays of doubles; -inf where it is impossible.
        like: one example position: an array, a pytree of arrays, or an int for a flat vector.
        vectorized: whether `fn` takes many positions in a call, with a leading axis, and returns an array of values.
        support: a NumPyro constraint, or a pytree of them matching `like`; `None` is the real line.
        on_error: what happens if `fn` raises, takes too long or ends its process: "raise" ends the run with a
            `BlackBoxError`, which has the draws so far; "reject" counts the point as impossible, and says so.
        timeout: seconds that one call may take.
        batch_size: positions in a call, at most, if `fn` takes many.
    """

    form: Form
    desk: Desk
    dim: int = eqx.field(static=True)
    dtype: np.dtype = eqx.field(static=True)

    def __init__(
        self,
        fn: Callable[[Any], Any],
        like: PyTree[Any],
        *,
        vectorized: bool = False,
        support: PyTree[Any] = None,
        on_error: Literal["raise", "reject"] = "raise",
        timeout: float | None = None,
        batch_size: int = BATCH_SIZE,
    ):
        if not callable(fn):
            raise TypeError(f"a black box should be a function of one position, but is a {type(fn).__name__}")
        if on_error not in ("raise", "reject"):
            raise ValueError(f"`on_error` should be 'raise' or 'reject', but is {on_error!r}")
        if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
            raise ValueError(f"`timeout` should be a number of seconds above 0, but is {timeout!r}")
        if isinstance(batch_size, bool) or not isinstance(batch_size, int | np.integer) or batch_size < 1:
            raise ValueError(f"`batch_size` should be an int of at least 1, but is {batch_size!r}")
        self.form = Form(like, support)
        self.dim, self.dtype = self.form.dim, self.form.dtype
        self.desk = Desk(fn, bool(vectorized), on_error, timeout, int(batch_size))

    def with_executor(self, executor: Executor | None) -> "BlackBox":
        """The same black box, asked by the workers of an executor, or here."""
        return eqx.tree_at(lambda box: box.desk, self, self.desk.with_executor(executor))

    def rejecting(self) -> "BlackBox":
        """The same black box, for a look: -inf where it gives no value, and nothing is remembered."""
        return eqx.tree_at(lambda box: box.desk, self, self.desk.rejecting())

    def log_density(self, position: Point) -> Scalar:
        if isinstance(position, jax.core.Tracer):
            raise TypeError(
                "a black box cannot be called by compiled code, which knows no values; tessmc.sample asks it from "
                "outside"
            )
        return jnp.asarray(self.log_densities(np.asarray(position)[None])[0], self.dtype)

    def log_densities(self, positions: np.ndarray) -> np.ndarray:
        """Log densities of unconstrained positions, (point, dim), asked now."""
        values, log_dets = jax.device_get(constrain_all(self.form, jnp.asarray(positions, self.dtype)))
        answers = self.ask(positions, values, np.arange(len(positions)))
        if answers.stop is not None:
            raise answers.stop
        return answers.values + log_dets

    def ask(self, positions: np.ndarray, values: PyTree[np.ndarray], places: Sequence[int] | np.ndarray) -> Answers:
        """What the function says at some places of a batch, given unconstrained and as the function takes them."""
        places = np.asarray(places, int)
        leaves = rows(self.form.structure.flatten_up_to(values), places)
        points = [self.form.structure.unflatten(each) for each in leaves]
        return self.desk.ask(points, [positions[place].tobytes() for place in places], self._in_words)

    def _in_words(self, value: PyTree[Any]) -> str:
        return in_words(self.form.named(value))


@eqx.filter_jit
def constrain_all(form: Form, positions: Points) -> tuple[PyTree[Array], Array]:
    """Positions as the user has them, and the log-determinants of the way there."""
    return jax.vmap(form.constrain)(positions)
