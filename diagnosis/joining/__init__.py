"""One decision where kinds of evidence meet: whose suspects, whose category, whose word counts."""
