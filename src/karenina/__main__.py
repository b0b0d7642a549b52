"""`python -m karenina` is `karenina`."""

from karenina.cli import main

main()
