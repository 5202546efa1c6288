"""``python -m hyperfront`` is the command ``hyperfront``."""

from hyperfront_command import main

main()
