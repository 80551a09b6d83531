"""Attempts of this node: admission, progress, leases."""
