"""Pools in the simulation: who names them, the verdict, and mutations."""
