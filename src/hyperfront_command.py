"""The command ``hyperfront``, beside the package, so that Ctrl-C while the package is imported shows no traceback."""

from __future__ import annotations

import sys

try:
    from hyperfront.apps.cli import main
except KeyboardInterrupt:
    print("hyperfront: stopped", file=sys.stderr)  # noqa: T201
    sys.exit(130)

if __name__ == "__main__":
    main()
