"""What is decided: pure, synchronous, total functions over `tugline.protocol`."""
