"""What a run has done already, so that one that was ended goes on where it stopped.

All that a run decides on the way follows from its seed, its settings and the results of a few long pieces of work. If
these are noted, in the order in which they were done, another run that is given them comes to the same place, bit for
bit, without doing them.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from tessmc._errors import Stopped
from tessmc.engines._devices import Layout

Tree = TypeVar("Tree")


class Journal:
    """Results of pieces of work, in the order in which they are asked for. This one keeps nothing.

    Args:
        rest: is called between two pieces of work, and may raise `Stopped`.
        limit: density evaluations that may be made in all, those of a run before this included.

    Attributes:
        num_made: density evaluations of the chains, in all.
        spent: those that were not made by chains on their way.
        keeps: whether anything that is noted will be known later.
        layout: which devices do the chains' work; None for the first.
    """

    keeps: bool = False
    layout: Layout | None = None

    def __init__(self, rest: Callable[[], None] = lambda: None, limit: int | None = None):
        self._rest, self.limit, self.num_made, self.spent = rest, limit, 0, 0

    def recall(self, like: Tree) -> Tree | None:  # noqa: ARG002
        """The next result that was noted by a run before this, in the structure of `like`; None if there is none left.

        Arrays of no elements in `like` stand for arrays of any shape.
        """
        return None

    def note(self, result: Any) -> None:
        """Add a result, a pytree with arrays; only when none is left to recall."""

    def is_due(self) -> bool:
        """Whether so much time has gone by that what is under way should be noted, too."""
        return False

    def rest(self) -> None:
        """Between two pieces of work.

        Raises:
            Stopped: the run is to end here.
        """
        self._rest()

    def flush(self) -> None:
        """Write what was noted, if that has not been done."""

    def allowed(self, least: int) -> int | None:
        """Evaluations that may still be made; None for any number.

        Raises:
            Stopped: they are fewer than are needed to go on.
        """
        if self.limit is None:
            return None
        left = self.limit - self.spent - self.num_made
        if left < least:
            raise Stopped(f"max_evaluations={self.limit} are spent")
        return left

    def once(self, like: Tree, work: Callable[[], Tree]) -> Tree:
        """The result of a piece of work, done now or in a run before this."""
        found = self.recall(like)
        if found is None:
            self.rest()
            found = work()
            self.note(found)
        return found

    def repeat(self, state: Tree, is_done: Callable[[Tree], bool], step: Callable[[Tree], Tree]) -> Tree:
        """Steps from state to state until it is done; the state is noted at the end and whenever that is due."""
        while not is_done(state) and (found := self.recall(state)) is not None:
            state = found
        while not is_done(state):
            self.rest()
            state = step(state)
            if is_done(state) or self.is_due():
                self.note(state)
        return state


# For who needs none.
NO_JOURNAL = Journal()
