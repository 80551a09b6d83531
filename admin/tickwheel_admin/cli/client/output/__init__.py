"""How commands print what an admin answers: tables for people, JSON and YAML for programs."""
