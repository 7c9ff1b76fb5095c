"""Which tokens are hidden: priors p(r) on the masking ratio, and the collator that draws masks (Liao et al., section 3)."""
