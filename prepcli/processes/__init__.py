"""Worker processes: how they start, wait and end, pools of them, and notes that explain a crash."""
