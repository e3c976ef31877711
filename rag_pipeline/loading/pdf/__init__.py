"""PDF files -> Markdown: `parse` reads a file, the other modules are its steps."""
