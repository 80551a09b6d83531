"""What directories of files have applied."""
