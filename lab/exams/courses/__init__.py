"""An exam of the log engine on whole courses of events (a node falls silent, a spare steps in, a switch disconnects
eight nodes, a clock is an hour wrong), in the words of many loggers and collected in many ways.
"""
