"""The small run of the trainer's tests."""

from small_run import corpus, recipe_file

__all__ = ["corpus", "recipe_file"]
