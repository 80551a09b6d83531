"""A process of its own for files whose rules may be without measure."""
