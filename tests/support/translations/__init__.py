"""Texts of the product in other languages, for what writes catalogues and documents."""
