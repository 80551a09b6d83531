"""Run Tickwheel jobs inside your own service."""
