"""What outlives a turn: the session, its event log, its questions."""
