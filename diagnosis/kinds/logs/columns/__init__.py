"""The column files of a log: tables of lines, their records, their writers."""
