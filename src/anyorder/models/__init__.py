"""Loading masked LMs, and the architectures of our own."""

from anyorder.models.build import build, configure
from anyorder.models.load import load

__all__ = ["build", "configure", "load"]
