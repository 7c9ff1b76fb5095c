"""Samplers: (init, step) pairs over a batch of independent rows, one algorithm a file."""
