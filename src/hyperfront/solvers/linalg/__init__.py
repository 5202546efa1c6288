"""Small linear and quadratic programs, solved for all rays of a step at once."""
