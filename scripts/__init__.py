"""Set-up, start and checks of a checkout: what ``make run`` and ``make test`` call."""
