"""Fuzzing: random, nearly valid and hostile inputs for the public API, files, routes and ``fit``.

Input ``n`` of a family is a function of ``n`` alone, so every finding can be run again by its number. A campaign runs
inputs in forked children with a bound on memory, and a watchdog that ends a child whose input takes too long.
"""
