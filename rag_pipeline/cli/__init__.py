"""`rag`: run, look into and search a corpus from the command line."""

from rag_pipeline.cli.main import app, main

__all__ = ["app", "main"]
