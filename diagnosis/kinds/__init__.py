"""The kinds of evidence, one package each; ``kind_table`` has a row a kind."""
