"""What generated parts of pages are made from; `tests.support.documents` writes them."""
