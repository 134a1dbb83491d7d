"""Archives opened member by member, within limits: tar, zip and what compresses them."""
