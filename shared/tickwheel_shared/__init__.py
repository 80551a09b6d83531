"""What admin and node must understand alike: what crosses the wire, and what workflows mean."""
