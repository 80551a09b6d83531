"""What pages cost a browser."""
