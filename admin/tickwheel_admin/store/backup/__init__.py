"""Copies of the whole database: files that are kept, and moves to another one."""
