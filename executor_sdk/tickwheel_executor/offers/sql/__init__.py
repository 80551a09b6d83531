"""The offer `sql`: statements on databases whose connections only this machine knows."""

from .connections import SqlConnection
from .offer import Sql

__all__ = ["Sql", "SqlConnection"]
