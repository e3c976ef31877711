"""Use a server's HTTP interface from Python: clients, and the records that they exchange."""
