"""The attempts of a node: admission, execution, progress, checkpoints, leases."""
