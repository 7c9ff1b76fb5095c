"""Loading masked LMs, and the architectures of our own."""
