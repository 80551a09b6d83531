"""Jobs that move from XXL-JOB and back."""
