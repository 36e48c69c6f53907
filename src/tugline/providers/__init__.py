"""Providers: adapters for the wire protocols, and wrappers around them (retry, fallback, record, router)."""
