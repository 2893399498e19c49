"""Common parts of the exports to other toolkits: ids of records, shards of records, and the audio of a record."""
