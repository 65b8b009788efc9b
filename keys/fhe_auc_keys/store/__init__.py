"""What a machine keeps: the encrypted key store and what stands in it, the audit trail, the privacy budget."""
