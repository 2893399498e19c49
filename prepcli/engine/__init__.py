"""The engine: ranks, plan and packing, publishing, rejects, progress, report. It has no knowledge of speech."""
