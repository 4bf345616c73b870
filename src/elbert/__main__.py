"""`python -m elbert` is the command `elbert`."""

from elbert.cli import main

if __name__ == "__main__":
    main()
