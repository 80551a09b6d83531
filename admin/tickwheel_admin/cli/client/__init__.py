"""Commands that speak to an admin through its API, from any machine and with a token.

They import nothing of the server: starting them takes a fraction of the time.
"""
