"""Pure numbers of tensors and texts."""
