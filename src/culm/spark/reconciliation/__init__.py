"""What two tables of entries have that the other lacks: whole tables, or record indexes whose sums are compared."""
