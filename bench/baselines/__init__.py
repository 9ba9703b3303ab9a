"""Programs that are measured beside ours and run in processes of their own."""
