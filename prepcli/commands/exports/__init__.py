"""What the exports to other toolkits share: ids of records, shards of records, and the audio of a record."""
