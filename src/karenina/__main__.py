"""`python -m karenina` is `karenina`."""

from karenina.cli import main

if __name__ == "__main__":
    main()
