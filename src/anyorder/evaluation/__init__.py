"""The papers' tables: perplexity, latency and minimal pairs, measured with intervals."""
