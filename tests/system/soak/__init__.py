"""Mixed load with faults for a long time, to find leaks."""
