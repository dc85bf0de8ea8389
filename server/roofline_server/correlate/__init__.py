"""Marks and samples -> steps. Pure: tables in, tables out, all times on the server's clock."""
