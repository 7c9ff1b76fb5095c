"""What makes the tables: each study measures models or samplers and gives rows."""
