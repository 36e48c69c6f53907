"""One agent's turn: steps until rest. Knows no frontend and writes no log; all it does is told as events."""
