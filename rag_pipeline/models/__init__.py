"""Ask chat and embedding models. `providers` has one file per vendor or local model."""
