"""gunicorn: one node in each worker, with `preload_app` and without."""

workers = 2


def post_worker_init(worker):
    from shop.jobs import executor  # not earlier: Django is set up by now

    executor.start()


def worker_exit(server, worker):
    from shop.jobs import executor

    executor.stop()
