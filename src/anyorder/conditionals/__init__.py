"""Where log q(x_t | observed) comes from: a model, or an exact table."""

from anyorder.conditionals.table import Table, chain_edges, clique_edges, hidden_markov, ising, random_joint

__all__ = ["Table", "chain_edges", "clique_edges", "hidden_markov", "ising", "random_joint"]
