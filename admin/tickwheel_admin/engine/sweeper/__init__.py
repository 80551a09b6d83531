"""Deals with runs that are past their deadline, lost or stalled."""
