"""The same facts in every form in which tools write them."""
