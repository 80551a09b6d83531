"""What the next days would bring: schedules, claims and slots in virtual time."""
