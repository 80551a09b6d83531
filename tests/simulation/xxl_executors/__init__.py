"""Simulated executors of XXL-JOB's protocol: they listen, and bridges of real admins call them."""
