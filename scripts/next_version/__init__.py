"""A made-up next version: its migrations change tables as docs/upgrading.md allows. Tests and measurements migrate a
database to it while this version serves.
"""
