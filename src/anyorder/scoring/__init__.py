"""Probabilities of texts: pseudo-log-likelihood, exact chains, any-order bounds."""
