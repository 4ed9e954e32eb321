"""What makes torch.compile fall back to eager."""
