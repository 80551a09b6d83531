"""Spans of runs, recorded with OpenTelemetry; imported only by an admin that traces."""
