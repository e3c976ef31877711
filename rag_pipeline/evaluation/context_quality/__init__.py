"""Judge retrieved contexts: how relevant each is, whether the answer used it, what is missing."""
