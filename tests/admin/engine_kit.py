"""Where test_recorder.py still looks for its kit."""

from tests.admin.kit.engine import Admin
from tests.admin.kit.messages import result
from tests.admin.kit.rows import add_job, ask

__all__ = ["Admin", "add_job", "ask", "result"]
