"""What an XXL-JOB installation holds, and what can be concluded from it."""
