"""What a report and the decisions of people mean, without queries and clocks: services and selectors read it."""
