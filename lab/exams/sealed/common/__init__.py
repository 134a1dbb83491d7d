"""What sealed sets share and what says nothing of their content: a job while it is written, clocks, base classes."""
