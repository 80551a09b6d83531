"""Handlers of the console's pages; each asks the services and renders a template."""
