"""What importing from another scheduler means, whichever it is."""
