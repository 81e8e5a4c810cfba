"""The warm-ups by name."""

from tessmc.adaptation._auto import AutoWarmup
from tessmc.adaptation._paper import PaperWarmup
from tessmc.adaptation._task import AbstractWarmup


class Warmup:
    """How the map is learned before the draws that count: `Warmup.auto()` or `Warmup.paper()`."""

    @staticmethod
    def auto(*, use_gradient: bool | None = None, frugal: bool | None = None) -> AbstractWarmup:
        """Finds the chains' way to the typical set and learns a map there, with nothing to set.

        Chains are tempered and gathered from wherever they start; an affine layer is taken from their draws in closed
        form, couplings are fitted to draws and densities, and where these do not teach enough, to π itself, by
        gradients at draws of the map. In more than 20 dimensions chains are then sent out to where the map makes π too
        rare, and it learns there, too. It ends early where nothing is left to gain. What it cannot see is a part of π
        that neither the chains nor the wider ones sent out beside them came near.

        Args:
            use_gradient: whether fits may use the gradient of the log density; False for values alone. By default
                it is used where the target has one and values alone leave the map far from perfect.
            frugal: whether to end as soon as draws are cheap, and not only when nothing is left to gain: fewer density
                evaluations in all, unless very many draws are wanted. By default so for black boxes.
        """
        return AutoWarmup(use_gradient, frugal)

    @staticmethod
    def paper(
        *,
        learning_rate: float = 1e-2,
        decay: float = 0.1,
        num_steps: int = 1,
        num_layers: int = 2,
        width: int | None = None,
        depth: int = 2,
        num_initial_steps: int = 400,
        num_initial_draws: int = 1000,
    ) -> AbstractWarmup:
        """Algorithm 2 to the letter, with the settings of Section 4.

        h, the number of epochs, and k, the number of chains, are `num_warmup` and `num_chains` of `sample`.

        Args:
            learning_rate: of Adam at the start; the paper has 1e-2, 2.5e-3 or 1e-3, by experiment.
            decay: the factor by which the learning rate falls over the warm-up, exponentially.
            num_steps: m, the gradient steps on (5) in an epoch.
            num_layers: n, the number of pairs of couplings in the map.
            width: of the hidden layers; the dimension if not given.
            depth: the number of hidden layers.
            num_initial_steps: gradient steps on (6) before the first epoch.
            num_initial_draws: M, the reference draws of one such step.
        """
        if not (learning_rate > 0 and 0 < decay <= 1):
            raise ValueError(
                "Warmup.paper needs a learning_rate above 0 and a decay above 0 and at most 1, "
                f"but has {learning_rate} and {decay}"
            )
        for name, count, least in (
            ("num_steps", num_steps, 0),
            ("num_layers", num_layers, 1),
            ("width", 1 if width is None else width, 1),
            ("depth", depth, 0),
            ("num_initial_steps", num_initial_steps, 0),
            ("num_initial_draws", num_initial_draws, 1),
        ):
            if count < least:
                raise ValueError(f"`{name}` of Warmup.paper should be at least {least}, but is {count}")
        return PaperWarmup(
            learning_rate, decay, num_steps, num_layers, width, depth, num_initial_steps, num_initial_draws
        )
