"""The spool: results that wait for their receipt."""
