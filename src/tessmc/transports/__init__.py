"""Maps T from reference to target space: FlowJAX bijections and our recipes."""

from tessmc.transports._coupling import AffineCoupling, paper_coupling

__all__ = ["AffineCoupling", "paper_coupling"]
