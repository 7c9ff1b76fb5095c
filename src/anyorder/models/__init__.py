"""Loading masked LMs, and the architectures of our own."""

from anyorder.models.load import load

__all__ = ["load"]
