"""Grid, block and shared memory against what the hardware takes."""
