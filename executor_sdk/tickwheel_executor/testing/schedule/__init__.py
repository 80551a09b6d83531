"""A whole schedule under test: declared jobs and workflows fire in virtual time."""
