"""HTTP/1.1 as this program needs it: streams that say how they ended, and nothing that is not asked for."""
