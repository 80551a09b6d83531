"""What each type of object asks of plans, one module each."""
