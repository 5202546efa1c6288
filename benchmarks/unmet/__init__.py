"""The parts of ``benchmarks/unmet_rays.py``."""
