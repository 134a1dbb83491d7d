"""Made-up hangs: stacks of many frameworks in the forms of many tools, with the ranks at fault."""
