"""The record index in the database: the store as sets to reconcile. Kept by ``index``, read by ``views``."""
