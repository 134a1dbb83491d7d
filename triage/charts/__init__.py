"""Tables and reports into charts: plotly.py builds the JSON, the page draws it where it is shown."""
