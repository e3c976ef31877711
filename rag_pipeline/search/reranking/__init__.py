"""Reorder a retriever's candidates by their token vectors, or by a model that reads them."""
