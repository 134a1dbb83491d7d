"""Captures of packets: their files, their headers, and the bursts of which records are made."""
