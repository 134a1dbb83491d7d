"""The stored lines of a job: tables that are read in slabs, events of one message, templates, clocks."""
