"""Judge retrieved contexts: relevance, use in the answer, missing facts."""
