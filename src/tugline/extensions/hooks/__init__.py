"""Hooks: programs, requests, models and functions of the user's that run at events of a session."""
