"""Jobs that nodes declare in code."""
