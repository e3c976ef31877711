"""Define the assets of a corpus. Plan, make, inspect and clean up their steps."""
