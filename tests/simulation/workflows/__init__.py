"""Workflows in simulated clusters."""
