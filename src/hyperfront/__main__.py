"""``python -m hyperfront`` is the command ``hyperfront``."""

import sys

if not sys.flags.safe_path:  # Python put the current folder first, which may hold anything
    del sys.path[0]

from hyperfront_command import main

main()
