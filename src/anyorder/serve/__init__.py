"""The HTTP server: one process, one model, in the shapes that existing clients speak."""
