"""The command line of Faultline for machines that run jobs: only the standard library, Python 3.9 and later."""

__version__ = "0.3.0"
