"""What is said: frozen data without behaviour. Imports msgspec and the standard library only."""
