"""Serve released corpora to people and agents, by MCP, HTTP and standard input and output."""
