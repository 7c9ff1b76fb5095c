"""How probable is a text? Pseudo-log-likelihoods, exact chains along an order, and the any-order likelihood."""

from anyorder.scoring.bound import bound
from anyorder.scoring.chain import chain, left_to_right, random_ranks
from anyorder.scoring.pseudo import pll, pll_word

__all__ = ["bound", "chain", "left_to_right", "pll", "pll_word", "random_ranks"]
