"""``python -m reproduction``: make the paper's tables and figures, list them, or show them on one page."""

from reproduction.command import main

if __name__ == "__main__":
    main()
