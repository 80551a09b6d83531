"""The connections to the admins."""
