"""Where log q(x_t | observed) comes from: a model, or an exact table."""

from anyorder.conditionals.mlm import ModelConditionals
from anyorder.conditionals.ordered import ModelOrdered
from anyorder.conditionals.reread import Reread
from anyorder.conditionals.table import Table, chain_edges, clique_edges, hidden_markov, ising, random_joint
from anyorder.conditionals.wrappers import Banned, ban

__all__ = [
    "Banned",
    "ModelConditionals",
    "ModelOrdered",
    "Reread",
    "Table",
    "ban",
    "chain_edges",
    "clique_edges",
    "hidden_markov",
    "ising",
    "random_joint",
]
