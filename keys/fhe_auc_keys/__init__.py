"""Who holds which key.

Everywhere in this package `members` is whom a site knows, `holder` the name of the key holder agreed on (to be a member
alone makes nobody holder), and `at` the present, with a time zone. Where something is opened, `session` is the id of
the session expected. Every refusal is a `fhe_auc_keys.errors.KeysError`.
"""
