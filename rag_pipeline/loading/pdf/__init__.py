"""Convert PDF files to Markdown: `parse` calls the other modules step by step."""
