"""A Flask service whose jobs run in threads, alongside its requests.

With TICKWHEEL_ADMINS and TICKWHEEL_TOKEN set, alone or with a node in each worker of gunicorn:

    python flask_app.py
    gunicorn --config gunicorn.conf.py flask_app:app
"""

from __future__ import annotations

import os
import time

from flask import Flask

from tickwheel_executor import Executor, Run

executor = Executor("shop", shutdown_grace_seconds=20)  # gunicorn gives its workers 30 s
app = Flask(__name__)


@executor.handler("count-stock")
def count_stock(run: Run, shelves: int = 3, seconds: float = 0.1) -> dict[str, int]:
    """Walk along the shelves."""
    for shelf in range(1, shelves + 1):
        app.logger.info("counting shelf %d", shelf)
        time.sleep(seconds)
        run.progress(shelf / shelves)
    return {"shelves": shelves, "process": os.getpid()}


@app.get("/")
def index() -> dict[str, int]:
    return {"process": os.getpid()}


if __name__ == "__main__":
    executor.start()  # Ctrl-C ends the program, which finishes running handlers
    app.run(port=int(os.environ.get("PORT", "5000")))
