"""Texts with times: subtitles, alignments, diarizations and transcripts of recordings, in forms that tools write."""
