"""The engine: ranks, plan and packing, publish, rejects, progress, report. It knows nothing of speech."""
