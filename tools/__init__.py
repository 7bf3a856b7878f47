"""Set-up of a check-out: the virtual environment, the test servers, Java. Standard library only."""
