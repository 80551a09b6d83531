"""Files that are applied while others apply theirs, or edit in the console."""
