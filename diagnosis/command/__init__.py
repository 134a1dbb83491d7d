"""What ``python -m diagnosis`` prints, and many logs in one run of it."""
