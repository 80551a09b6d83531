"""The offer `http`: a call of an HTTP server, checked before, during and after it."""

from .offer import Http

__all__ = ["Http"]
