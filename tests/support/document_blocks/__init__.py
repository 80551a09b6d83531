"""Blocks of code in the documents, and what checks each language."""
