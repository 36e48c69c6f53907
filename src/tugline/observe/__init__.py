"""Subscribers of the bus that write down what they hear."""
