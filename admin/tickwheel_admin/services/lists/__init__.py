"""What lists share: pages, saved views, suggestions."""
