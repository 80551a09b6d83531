"""Files of proofs, which are verified without a server."""
