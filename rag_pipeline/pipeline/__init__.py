"""Define the assets of a corpus, and plan, make, inspect and clean up their steps."""
