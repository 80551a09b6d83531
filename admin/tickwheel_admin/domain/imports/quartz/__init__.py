"""What the tables of Quartz 2 hold, and what becomes of it here."""
