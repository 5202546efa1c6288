"""The command ``hyperfront``, beside the package: Ctrl-C while that is loaded, for a second, is no traceback either."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from hyperfront.apps.cli import main as command
    except KeyboardInterrupt:
        print("hyperfront: stopped", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    command()


if __name__ == "__main__":
    main()
