"""What monitoring systems read of an admin."""
