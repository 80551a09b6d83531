"""Computing in processes of their own."""
