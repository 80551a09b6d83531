"""What `tickwheel doctor` asks of the database."""
