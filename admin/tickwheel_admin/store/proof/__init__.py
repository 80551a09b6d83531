"""What a proof reads: runs of fires by key, what the self-audit counted, and the key pair."""
