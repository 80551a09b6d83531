"""Tests of `tickwheel mcp`."""
