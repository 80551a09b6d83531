"""Workflows in a forecast: their steps begin, take slots and end as in the engine."""
