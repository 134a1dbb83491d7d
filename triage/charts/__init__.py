"""Tables and reports into plotly figures, which the page draws where they are shown."""
