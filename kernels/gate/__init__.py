"""The compile gate: every kernel built for real targets without a device, held to a ledger."""
