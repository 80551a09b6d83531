"""The groups of commands, a module for each noun."""
