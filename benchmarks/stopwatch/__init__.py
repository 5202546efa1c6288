"""What ``benchmarks/speed.py`` is made of."""
