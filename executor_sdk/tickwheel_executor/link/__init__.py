"""The link to the admins."""
