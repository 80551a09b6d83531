"""What executors of the protocol `xxl_job` have besides."""
