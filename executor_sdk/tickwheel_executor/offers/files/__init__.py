"""The offer `file`: files are deleted, moved or archived below folders that the owner lists."""

from .offer import Files
from .roots import FileRoot

__all__ = ["FileRoot", "Files"]
