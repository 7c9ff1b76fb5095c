"""Training any-order models: objective, data, tokenizer, trainer, recipes."""
