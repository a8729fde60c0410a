"""Scores, agreement, kappa, alpha and their intervals: pure functions of counted tables."""
