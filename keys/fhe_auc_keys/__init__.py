"""Who holds which key.

Everywhere in this package `trust` is whom a site trusts, `holder` the name of the key holder agreed on (a certificate
alone makes nobody holder), and `at` the present, with a time zone. Where something is opened, `session` is the id of
the session expected. Every refusal is a `fhe_auc_keys.errors.KeysError`.
"""
