"""Reading masked LMs, and the architectures of our own."""

from anyorder.models.build import build, configure
from anyorder.models.load import Loaded, read_checkpoint

__all__ = ["Loaded", "build", "configure", "read_checkpoint"]
