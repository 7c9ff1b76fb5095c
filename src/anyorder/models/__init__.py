"""Reading masked LMs, and the architectures of our own. Kept empty: ``import anyorder`` passes through here."""
