"""The only package that knows SQL. Functions take a connection and never commit."""
