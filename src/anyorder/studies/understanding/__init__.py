"""Natural language understanding (Liao et al., section 4.3): GLUE, SQuAD 2.0, Tables 5 to 7."""
