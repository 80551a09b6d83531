"""What if: changes that are not saved yet, and what they would bring."""
