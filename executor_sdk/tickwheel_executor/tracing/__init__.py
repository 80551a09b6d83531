"""Spans for attempts, with OpenTelemetry; imported only by a node that traces."""
