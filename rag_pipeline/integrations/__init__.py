"""Released corpora inside other frameworks."""
