"""Where log q(x_t | observed) comes from: a model, or an exact table."""

from anyorder.conditionals.mlm import ModelConditionals
from anyorder.conditionals.ordered import ModelOrdered
from anyorder.conditionals.reread import Reread
from anyorder.conditionals.restricted import Restricted, RestrictedOrdered, text_only
from anyorder.conditionals.table import Table, chain_edges, clique_edges, hidden_markov, ising, random_joint

__all__ = [
    "ModelConditionals",
    "ModelOrdered",
    "Reread",
    "Restricted",
    "RestrictedOrdered",
    "Table",
    "chain_edges",
    "clique_edges",
    "hidden_markov",
    "ising",
    "random_joint",
    "text_only",
]
