"""The versioned HTTP interface: search, answers and documents, also in OpenAI's form."""
