"""Executors of the protocol `xxl_job`."""
