"""Ask models: chat, batches, embeddings; one file per vendor or local model."""
