"""Text in, results out: filling, generating, scoring, joints; :mod:`anyorder.tasks.lm` is their facade."""
