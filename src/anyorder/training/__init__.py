"""Training any-order models: objective, data, tokenizer, trainer, recipes."""

import os

# MKL may choose another order of summation each time memory lies differently; this makes it choose by shape alone, so
# that a resumed run ends bit-equal to an uninterrupted one. It is read once, at MKL's first use, hence so early.
os.environ.setdefault("MKL_CBWR", "AUTO")
