"""`python -m persistence.cli`: the command `sqlatch`."""

from persistence.cli import main

main()
