"""gunicorn: one node in each worker, with `preload_app` and without.

A worker is forked, and threads of the parent do not exist in it. So nothing starts on import, and
each worker starts its own node.
"""

workers = 2


def post_worker_init(worker):
    from flask_app import executor

    executor.start()


def worker_exit(server, worker):
    from flask_app import executor

    executor.stop()
