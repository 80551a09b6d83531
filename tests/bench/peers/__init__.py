"""Other schedulers, measured in the same run as Tickwheel; README.md says how."""
