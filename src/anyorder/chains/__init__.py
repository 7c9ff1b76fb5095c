"""Exact analysis of samplers and estimators on tables (Li et al. 2024)."""
