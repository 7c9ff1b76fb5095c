"""What people look at: tables, plots, pages and traces of results made elsewhere."""
