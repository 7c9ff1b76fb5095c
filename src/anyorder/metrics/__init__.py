"""Measures of texts and of derived joints."""
