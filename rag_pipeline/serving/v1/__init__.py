"""The versioned HTTP interface: search, answers and documents, and OpenAI's form of them."""
