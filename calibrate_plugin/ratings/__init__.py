"""Which labels count, and the small tables of counted answers that every number is made of."""
