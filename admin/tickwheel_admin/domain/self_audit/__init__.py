"""What should have fired, computed a second time, and how the ledger differs from it.

Nothing here uses the code that plans fires: an import contract in pyproject.toml keeps it so.
"""
