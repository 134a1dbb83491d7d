"""The documents of ``docs/`` as pages of the site: which there are, as HTML, and the search of their sections."""
