"""What ours is measured against, rebuilt here and run in the same process: never a number quoted from elsewhere."""
