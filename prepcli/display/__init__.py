"""What people see: text from data made safe for a terminal, figures, and the short form of reports."""
