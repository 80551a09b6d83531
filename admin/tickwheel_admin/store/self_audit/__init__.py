"""What the self-audit reads of the past and of the ledger, and what it found."""
