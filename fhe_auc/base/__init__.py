"""What every room stands on: errors, files, bytes that travel, key streams, names, logs. It knows nothing of AUCs."""
