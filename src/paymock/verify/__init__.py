"""The judge of an integration: trials of scenarios and faults, rules, coverage."""
