"""Bad luck on purpose: deaths, signals, damaged and swapped files, full disks, missing locks, clock jumps.

``python -m tests.faults`` (``make faults``) tries thousands of them on every kind of run, and writes the counts to
``docs/faults.json`` and into the table of ``docs/reliability.md``. ``--quick`` tries a few, for the test suite.
"""
