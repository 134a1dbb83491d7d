"""An exam of the log engine on whole courses of events (a node falls silent, a spare steps in, a switch takes eight
nodes along, a clock is an hour off), told in the words of many loggers and collected in many ways."""
