"""Made-up captures of network flows, with fabrics, tenants, schedules and faults of known truth."""
