"""What a run has done already, so that one that was ended goes on where it stopped.

All that a run decides on the way follows from its seed, its settings and the results of a few long pieces of work. If
these are noted, in the order in which they were done, another run that is given them comes to the same place, bit for
bit, without doing them.
"""

from collections.abc import Callable
from typing import Any, TypeVar

Tree = TypeVar("Tree")


class Stopped(Exception):  # noqa: N818
    """Not an error: somebody or something wants the run to end here; the reason is a sentence."""


class Journal:
    """Results of pieces of work, in the order in which they are asked for. This one keeps nothing.

    Args:
        rest: is called between two pieces of work, and may raise `Stopped`.

    Attributes:
        keeps: whether anything that is noted will be known later.
    """

    keeps: bool = False

    def __init__(self, rest: Callable[[], None] = lambda: None):
        self._rest = rest

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
