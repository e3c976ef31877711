"""Ask chat and embedding models. `providers` has one file for each vendor or local model."""
