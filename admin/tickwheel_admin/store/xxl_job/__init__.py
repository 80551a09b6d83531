"""What executors of the protocol `xxl_job` have besides, and an XXL-JOB database that is read."""
