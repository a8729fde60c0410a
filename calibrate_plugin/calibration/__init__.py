"""Is this judge as good as another annotator? A judge beside its humans, with the uncertainty of every number.

Everything starts from a ``Panel``, the answers of one dimension side by side: ``panel.panel_of(answers)`` makes it from what
the rules said (``ratings.rules.Answers``), ``panel.panel(...)`` from lists. Raters are indices, as in ``Answers.raters``. How the
items were chosen is a ``design.Design``; where it is not random, numbers have a design-weighted form, and verdicts and
corrected rates rest on that one.

======================  ===============================================================================================
``panel``               ``coverage(panel, judge)``: asked, answered, abstained, tied, flipped, failed
``ceiling``             ``ceiling(panel, judge, ...)``: judge-human beside human-human kappas and the verdict;
                        ``judges_together(panel, judges, ...)``: judge-judge pairs
``alt_test``            ``alt_test(panel, judge, ...)``: may the judge stand in for a person?
``side_by_side``        ``side_by_side(panel, judges, ...)``: judges or versions against each other on the same items
``gold``                ``single``, ``majority`` or ``adjudicated`` make a ``Gold``; ``against_gold(panel, judge, gold, ...)``
``errors``              mean absolute error, bias, within one, Pearson, Spearman (used by ``gold``, open to plain values)
``thresholds``          ``thresholds(scores, passed, dev=, test=)`` for judges that give numbers; ``scores_of`` reads them
``confidence``          ``of_draws(draws_of(...), ...)`` and ``of_stated(...)``: ECE, Brier, reliability table
``position``            ``position(orders_of(...), ...)``: both orders of a pairwise judge
``rates``               ``corrected_rates(panel, judge, gold, production, ...)``: the correction that the design allows
``icc``                 ``reliability(panel, ...)``: ICC(1) and ICC(1,k) of ratings
``paradox``             ``explain(table)``: why a kappa is low although the raters agree
``design``              ``weighted_estimate(strata, statistics, ...)``: any statistic of the agreement core, weighted
======================  ===============================================================================================

Pure functions: no I/O, no clock, draws from the seed of a ``Resampling`` only. A number that is missing says why.
"""
