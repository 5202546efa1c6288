"""Parts of benchmarks/ranks.py: the cases, and what a process of a job does."""
