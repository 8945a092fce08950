"""What a run came to: shares with their counts and intervals, tables, and a mirror in a tracker."""
