"""Labels from files: long CSV, JSONL and Parquet, one row an answer."""

from calibrate_files.source import open_source

__all__ = ["open_source"]
