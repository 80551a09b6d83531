"""The bridge to executors of XXL-JOB: they listen, and we call them."""
