"""Sets of instants: cron expressions, wall times, zones."""
