"""Records of the HTTP interface."""
