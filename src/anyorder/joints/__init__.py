"""Explicit joints over a few positions from a model's conditionals (Torroba Hennigen & Kim 2023)."""
