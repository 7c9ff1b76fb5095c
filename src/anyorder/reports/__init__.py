"""Studies that put a number, and its error, on what the rest of the package claims."""
