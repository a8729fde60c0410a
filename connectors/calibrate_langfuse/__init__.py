"""The Langfuse connector of calibrate-plugin: scores in, from a file or a running Langfuse; results out.

Keys of ``[sources.NAME]`` beside the common ones:

===================  ===================================================================================================
item                 what an item is: "trace" (default), "observation", "session" or "experiment"
lift                 true: a score of an observation counts for its trace
environments         only these
human, human_rater   score names whose scores by the API are people's; the metadata key that names the person
version_key          metadata key that holds a judge's version
version_suffix       true: "safety-judge@v3" is version v3 of safety-judge
version_comment      regular expression with a group ``version``, searched in the comment
sample_key           metadata keys that hold which draw of a judge this is, in which order a pair was shown,
order_key            and the judge's own confidence, 0 to 1
confidence_key
url, project         for links of a file's scores: the server's address and the project's id
window_days          a pull lists the last so many days again (3), where edits cluster
workers              requests at a time (8)
runs                 false: runs are not looked up
failed_runs          { status = "failed" }: runs whose metadata says this failed; Langfuse knows no state of a run
models               false: do not ask which model answered (one request more for a thousand answers of Langfuse's own judges)
context              what people see beside input and output when they label: types or names of observations, by default
                     ["RETRIEVER", "TOOL"]; never what an evaluator said
accept_empty         true: believe a project that shows no score at all any more
ca_file, proxy       as they say; timeout in seconds (60)
timeout
===================  ===================================================================================================

``[push.NAME]`` takes ``items``, ``runs`` and ``report``, all true. The address and keys come from LANGFUSE_BASE_URL (or
LANGFUSE_HOST), LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY.
"""

from __future__ import annotations

from calibrate_langfuse.records import Rules
from calibrate_plugin.connector import Source, SourceSettings


def open_source(settings: SourceSettings) -> Source:
    """The scores that ``settings`` describe: those of ``file``, or else of the Langfuse that the environment names."""
    rules = Rules.of(settings)
    if settings.file is not None:
        from calibrate_langfuse.exports import ExportedScores

        return ExportedScores(settings, rules)
    from calibrate_langfuse.live import LiveScores

    return LiveScores(settings, rules)
